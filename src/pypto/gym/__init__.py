"""The gym: a library of kernels written as a user would write them, each with its golden.

One file a kernel family; each ends with its records in `KERNELS`.  `pypto gym list` shows them,
`pypto gym run NAME` runs one, and the tests run all.  A family is loaded when it is asked for,
since the goldens bring torch, which takes a second to import.
"""

from importlib import import_module

from pypto.gym.record import Kernel

FAMILIES = ("gated_delta_rule", "gdr_forward", "gdr_backward", "gdr_recurrent")


def kernels() -> dict[str, Kernel]:
    """Every kernel of the gym by its name; needs torch."""
    families = [import_module(f"{__name__}.{family}") for family in FAMILIES]
    return {kernel.name: kernel for family in families for kernel in family.KERNELS}
