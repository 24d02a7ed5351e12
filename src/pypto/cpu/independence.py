"""Which loops may run their trips at the same time.

In: a loop.  Out: whether no trip touches what another one writes, by proof from the text alone.  A
trip may write boxes of tensors from outside of the loop; their offsets must tell trips apart: along
one axis they move with the index by at least what the trip covers, or two axes hold the quotient
and the remainder of the index by one number.  `parallel=True` is a hint, not a promise: what is not
proved runs in order.
"""

from __future__ import annotations

from typing import NamedTuple

from pypto.ir import sym
from pypto.ir.graph import Node, Storage, Value, leaves_of, walk
from pypto.ir.sym import Atom, Expr, SymInt
from pypto.ir.types import IntType

# Nodes that read or write a box of a tensor, with the argument that is the tensor.
_BOXES = {"view": "input", "assemble": "dst", "item": "input", "item_set": "dst"}


class _Access(NamedTuple):
    """A box of a tensor: offsets and the most that it covers, per axis."""

    starts: tuple[SymInt, ...]
    counts: tuple[int, ...]


def independent(loop: Node) -> bool:
    """Whether the trips of a loop may run at the same time."""
    region = loop.regions[0]
    if not _hands_nothing_on(loop):
        return False
    written: set[Storage] = set()
    for node in walk(region):
        if node.op.name == "print":
            return False
        if node.op.writes is not None:
            storage = node.result.storage
            if storage is not None and not _is_local(storage, loop):
                written.add(storage)
    made = _made(loop, written)
    accesses: dict[Storage, list[_Access]] = {s: [] for s in written}
    for node in walk(region):
        for value in {*node.operands, *node.attrs.get("inits", ())}:
            if isinstance(value, Value) and value.storage in written:
                access = _access(node, value)
                if access is None and not _passes_on(node):
                    return False
                if access is not None:
                    accesses[value.storage].append(access)
    index = region.params[0]
    step = loop.attrs["step"]
    return isinstance(step, int) and all(
        _told_apart(found, index, step, made) for found in accesses.values()
    )


def _made(loop: Node, written: set[Storage]) -> set[Value]:
    """The integers that differ from trip to trip."""
    region = loop.regions[0]
    made = {region.params[0]}
    for node in walk(region):
        made.update(p for r in node.regions for p in r.params)
        # An element of a tensor that no trip writes is the same in all of them.
        reads = node.op.name in ("item", "integer")
        steady = reads and not any(v.storage in written for v in node.operands)
        if not steady or any(leaf in made for leaf in leaves_of(node.attrs)):
            made.update(node.results)
    return made


def _hands_nothing_on(loop: Node) -> bool:
    """Whether everything that a loop carries is the memory of a tensor from outside."""
    region = loop.regions[0]
    for param, init, item in zip(
        region.params[1:], loop.attrs["inits"], region.yields, strict=True
    ):
        if isinstance(param.type, IntType):
            return False
        if not isinstance(init, Value) or not isinstance(item, Value):
            return False
        if not init.storage is param.storage is item.storage:
            return False
        if init.tensor.valid != item.tensor.valid:
            return False
    return True


def _is_local(storage: Storage, loop: Node) -> bool:
    """Whether the storage is made in the loop, so that each trip has its own."""
    for node in walk(loop.regions[0]):
        for result in node.results:
            if result.storage is storage:
                return node.op.writes is None and not node.regions
    return False


def _passes_on(node: Node) -> bool:
    """A loop or branch hands a version of the tensor on; what it does inside is looked at there."""
    return bool(node.regions)


def _access(node: Node, value: Value) -> _Access | None:
    name = _BOXES.get(node.op.name)
    if name is None or node.operands[node.attrs[name].index] is not value:
        return None
    storage = value.storage
    assert storage is not None
    if value.tensor.shape != storage.type.shape:
        return None  # another handle on the memory, whose axes are not those of the storage
    rank = value.tensor.rank
    if node.op.name == "view":
        return _Access(tuple(node.attrs["offsets"]), tuple(node.attrs["shape"]))
    if node.op.name == "assemble":
        shape = node.operands[node.attrs["src"].index].tensor.shape
        return _Access(tuple(node.attrs["offsets"]), tuple(shape))
    return _Access(tuple(node.attrs["index"]), (1,) * rank)


# --- offsets -------------------------------------------------------------------------------------


def _told_apart(accesses: list[_Access], index: Value, step: int, made: set[Value]) -> bool:
    if not accesses:
        return True
    rank = len(accesses[0].starts)
    if any(_moves_on(accesses, axis, index, step, made) for axis in range(rank)):
        return True
    return any(
        _splits(accesses, a, b, index, step) for a in range(rank) for b in range(rank) if a != b
    )


def _moves_on(
    accesses: list[_Access], axis: int, index: Value, step: int, made: set[Value]
) -> bool:
    """Along the axis each trip lies behind the one before."""
    low, high = sym.INF, -sym.INF
    common: tuple[int, Expr] | None = None
    for access in accesses:
        start = sym.expr(access.starts[axis])
        factor, fixed, moving = _parts(start, index, made)
        if common is None:
            common = (factor, fixed)
        if common != (factor, fixed):
            return False
        least, most = moving.bounds()
        low, high = min(low, least), max(high, most + access.counts[axis])
    assert common is not None
    return high - low <= abs(common[0] * step)


def _parts(x: Expr, index: Value, made: set[Value]) -> tuple[int, Expr, Expr]:
    """An offset as factor · index + what stays the same in all trips + what moves inside one."""
    factor = 0
    fixed, moving = sym.const(0), sym.const(x.const)
    for monomial, coefficient in x.terms.items():
        term = Expr({monomial: coefficient}, 0)
        if len(monomial) == 1 and monomial[0].op == "value" and monomial[0].args[0] is index:
            factor += coefficient
        elif any(leaf in made for leaf in term.leaves()):
            if index in term.leaves():
                return 0, x, sym.leaf(index)  # no bounds that would prove anything
            moving = sym.add(moving, term)
        else:
            fixed = sym.add(fixed, term)
    return factor, fixed, moving


def _splits(accesses: list[_Access], a: int, b: int, index: Value, step: int) -> bool:
    """Axis `a` holds index // n and axis `b` index % n, for all accesses alike."""
    first = accesses[0]
    quotient, rest = _only_atom(first.starts[a]), _only_atom(first.starts[b])
    if quotient is None or rest is None or (quotient.op, rest.op) != ("floordiv", "mod"):
        return False
    if quotient.args != rest.args or not quotient.args[1].is_const:
        return False
    counted = quotient.args[0]
    # Different trips have different numbers there.
    alone = counted.terms.keys() == sym.leaf(index).terms.keys()
    return (
        alone
        and step != 0
        and all(
            access.starts[a] == first.starts[a]
            and access.starts[b] == first.starts[b]
            and access.counts[a] == access.counts[b] == 1
            for access in accesses
        )
    )


def _only_atom(x: SymInt) -> Atom | None:
    """The one atom that an expression is."""
    if isinstance(x, Expr) and x.const == 0 and len(x.terms) == 1:
        ((monomial, factor),) = x.terms.items()
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None
