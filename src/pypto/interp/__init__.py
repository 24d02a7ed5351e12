"""The NumPy meaning of a graph: the judge of everything else that runs a kernel."""

from pypto.loading import on_demand

__getattr__ = on_demand(__name__, "run")
