"""The NumPy meaning of a graph: the judge of everything else that runs a kernel."""
