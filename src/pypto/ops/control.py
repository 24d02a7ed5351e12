"""Records of the ops that the front end emits itself: loops, branches, memory, checks.

They have no public function of their own; `ops/window.py` and the trace give them their operands
and types, the interpreter and the back ends know each by name.
"""

from __future__ import annotations

from pypto.ir import build, sym
from pypto.ir.dtype import SUPPORTED
from pypto.ir.op import Arg, Family, Op, all_valid, register, same_shape, same_valid
from pypto.ir.scalar import set_spill
from pypto.ir.sym import Expr
from pypto.ir.types import INT


def _record(
    name: str, sentence: str, args: tuple[Arg, ...], family: Family, **fields: object
) -> Op:
    return register(
        Op(
            name,
            family,
            sentence,
            args,
            accept=SUPPORTED,
            shape=same_shape,
            valid=fields.pop("valid", same_valid),  # type: ignore[arg-type]
            reference=None,
            hidden=True,
            engine="none",
            **fields,  # type: ignore[arg-type]
        )
    )


LOOP = _record(
    "loop",
    "Runs its region once per index in range(start, stop, step), carrying values.",
    (
        Arg("start", "symint"),
        Arg("stop", "symint"),
        Arg("step", "symint"),
        Arg("inits", "any"),
        Arg("parallel", "bool", False),
    ),
    Family.CONTROL,
)
COND = _record(
    "cond",
    "Runs its first region where the condition is not 0, else its second.",
    (Arg("cond", "symint"),),
    Family.CONTROL,
)
REQUIRE = _record(
    "require",
    "Raises an error where the condition is 0.",
    (
        Arg("cond", "symint"),
        Arg("error", "str"),
        Arg("code", "str"),
        Arg("text", "str"),
        Arg("fix", "str"),
    ),
    Family.CONTROL,
)
INTEGER = _record(
    "integer",
    "Gives an expression over integers a name.",
    (Arg("value", "symint"),),
    Family.CONTROL,
)


def _spill(expression: Expr) -> Expr:
    """A deep expression as a value of the graph, where one is being traced."""
    trace = build.active()
    if trace is None:
        return expression
    return sym.leaf(trace.emit(INTEGER, (), {"value": expression}, (INT,)).result)


set_spill(_spill)
PRINT = _record(
    "print",
    "Prints values while the kernel runs, where the condition is not 0.",
    (Arg("items", "any"), Arg("cond", "symint")),
    Family.CONTROL,
)
EMPTY = _record(
    "empty",
    "Memory of the kernel's own that nothing has written yet.",
    (Arg("name", "str"),),
    Family.CONTROL,
    valid=all_valid,
)
VIEW = _record(
    "view",
    "A window of a tensor at run-time offsets.",
    (Arg("input"), Arg("shape", "any"), Arg("offsets", "any"), Arg("given", "any")),
    Family.CONTROL,
)
RESHAPE = _record(
    "reshape",
    "The same elements in another shape.",
    (Arg("input"), Arg("shape", "any")),
    Family.CONTROL,
)
ALIAS = _record(
    "alias",
    "The same memory under another shape.",
    (Arg("input"), Arg("shape", "any")),
    Family.CONTROL,
    valid=all_valid,
)
REINTERPRET = _record(
    "reinterpret",
    "The same bytes as elements of another type.",
    (Arg("input"), Arg("dtype", "dtype")),
    Family.CONTROL,
)
ITEM = _record(
    "item", "Reads one integer element.", (Arg("input"), Arg("index", "any")), Family.CONTROL
)
ITEM_SET = _record(
    "item_set",
    "Writes one integer element.",
    (Arg("dst"), Arg("index", "any"), Arg("value", "symint")),
    Family.WRITE,
    writes="dst",
)
ASSEMBLE = _record(
    "assemble",
    "Writes the valid box of one tensor into another at run-time offsets.",
    (Arg("src"), Arg("dst"), Arg("offsets", "any")),
    Family.WRITE,
    writes="dst",
)
ATOMIC_ADD = _record(
    "atomic_add",
    "Adds the valid box of one tensor to a window of another.",
    (Arg("src"), Arg("dst"), Arg("offsets", "any")),
    Family.WRITE,
    writes="dst",
)
MOVE = _record(
    "move",
    "Gives memory of the kernel's own the whole value of another tensor.",
    (Arg("src"), Arg("dst")),
    Family.WRITE,
    writes="dst",
)
