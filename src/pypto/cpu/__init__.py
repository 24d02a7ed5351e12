"""From a graph to machine code: plan, emit LLVM IR, load, run.

Importing the package loads none of it, and LLVM comes with it: what compiles asks for `launch`.
"""

from pypto.loading import on_demand

__getattr__ = on_demand(__name__, "launch")
