"""`pypto.frontend`: the decorator and its kin, under the names of the language."""

from pypto.jit import jit
from pypto.trace.loops import dynamic, function

__all__ = ["dynamic", "function", "jit"]
