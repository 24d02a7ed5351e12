"""The findings of a trace.

In: an error that need not end the trace.  Out: the error with its place, among what is told
together when the trace has ended; raised where nobody collects.
"""

from __future__ import annotations

from pypto import knobs
from pypto.errors import InternalError, PyptoError, Stopped
from pypto.ir import place


def keep(problem: PyptoError) -> None:
    """Put an error among the findings; raise it where nobody collects or where the user's own code
    may catch it.
    """
    trace = place.current.trace
    if trace is None or isinstance(problem, (InternalError, Stopped)) or place.is_caught():
        raise problem
    if problem.loc is None:
        problem.loc = place.here()
    if not knobs.DEBUG.get():
        # Frames of ours, which hold tensors.
        problem.__traceback__ = None
    trace.findings.append(problem)
