"""Results that get lost, and memory that is read before anything wrote it.

In: a graph and what the trace knows of the kernel's names.  Out: the located errors.  Both are
mistakes that would otherwise show only as numbers that are wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pypto.errors import PyptoError, PyptoWarning, error, warn
from pypto.ir.graph import Graph, Node, Region, Storage, Value, walk
from pypto.trace.run import Traced


def used_storages(graph: Graph) -> set[int]:
    """The storages that some node reads or writes."""
    used: set[int] = set()
    for node in walk(graph.body):
        inits = [v for v in node.attrs.get("inits", ()) if isinstance(v, Value)]
        used.update(id(v.storage) for v in (*node.operands, *inits) if v.storage is not None)
    return used


def written_params(graph: Graph) -> frozenset[int]:
    """The parameters that a kernel writes."""
    storages = [param.value.storage for param in graph.params]
    return frozenset(i for i, s in enumerate(storages) if s is not None and s.written)


def lost_results(graph: Graph, traced: Traced) -> list[PyptoError]:
    """Errors about results that no caller can see: of parameters that are bound instead of written,
    and of a kernel that writes nothing.
    """
    used = used_storages(graph) | {id(s) for s in traced.doubtful}
    found: list[PyptoError] = []
    for param in graph.params:
        name, storage = param.name, param.value.storage
        places = traced.rebound.get(name, [])
        if traced.findings:
            # What failed may have read the parameter; a value that nothing reads is lost for sure.
            places = [place for place in places if place in traced.unread]
        if places and id(storage) not in used:
            text = f"output parameter `{name}` is never written: rebinding the name does not write "
            text += f"the tensor; use `{name}[:] = …`"
            found.append(error(ValueError, text, loc=places[0], fix=f"{name}[:] = …"))
        elif storage is not None and (storage.written or storage in traced.doubtful):
            text = f"output parameter `{name}` is rebound to a value that nothing reads: rebinding "
            text += f"the name does not write the tensor; use `{name}[:] = …`"
            found += [
                error(ValueError, text, loc=place, fix=f"{name}[:] = …")
                for place in places
                if place in traced.unread
            ]
    if not found and not written_params(graph) and not traced.doubtful:
        found.append(
            error(
                ValueError,
                f"kernel `{graph.name}` writes no parameter, so nothing of it can be seen",
                loc=graph.loc,
                fix="write a result into a parameter: `out[:] = t`, or "
                "`pypto.assemble(t, offsets, out)`",
            )
        )
    return found


def warn_of_lost(nodes: list[Node], graph: Graph, traced: Traced) -> None:
    """Warn of values that were computed for a tensor and never reach it.

    `nodes` are those before dead code went: a parameter's name that was bound to a value which
    nothing uses, or a write into a view, which is a copy, that nothing reads.
    """
    alive = set(walk(graph.body))
    lines = {(n.loc.file, n.loc.line) for n in alive if n.loc is not None}
    dead = {(n.loc.file, n.loc.line) for n in nodes if n.loc is not None} - lines
    for name, places in traced.rebound.items():
        for place in places:
            if place in traced.unread or (place.file, place.line) in dead:
                warn(
                    PyptoWarning,
                    f"`{name}` is bound to a value that nothing uses; binding the name of a "
                    "parameter does not write the tensor",
                    place,
                    f"write it in place: `{name}[:] = …`",
                )
    for node in nodes:
        target = _target(node)
        if node in alive or target is None:
            continue
        source = node.operands[target].node
        if source is not None and source.op.name == "view":
            warn(
                PyptoWarning,
                "a write into a view is lost: a view is a copy, and nothing reads it afterwards",
                node.loc,
                "write into the tensor itself: `t[a:b, :] = v`, or `pypto.assemble(v, offsets, t)`",
            )


def _target(node: Node) -> int | None:
    """The operand that a node writes into; what it holds already is not read as a whole."""
    return None if node.op.writes is None else node.attrs[node.op.writes].index


# Ops that hand memory on without computing on it.
_PASSING = ("alias", "move")


def unwritten_reads(graph: Graph, doubtful: Collection[Storage]) -> list[PyptoError]:
    """Reads that no path can have preceded by a write, the first of each tensor; none of tensors
    that an op which has failed may have been meant to write.

    Memory that a loop fills step by step is read at run time only where it was written, which the
    text alone cannot show; such reads are left to the run.
    """
    blank: dict[Value, Value] = {}
    found: dict[Value, PyptoError] = {}
    stack: list[tuple[Region, int, bool]] = [(graph.body, 0, True)]
    while stack:
        region, position, certain = stack.pop()
        while position < len(region.nodes):
            node = region.nodes[position]
            position += 1
            for origin in _visit(node, blank):
                if origin.storage not in doubtful:
                    found.setdefault(origin, _unwritten(node, origin))
            if not node.regions:
                continue
            stack.append((region, position, certain))
            is_loop = node.op.name == "loop"
            if is_loop:
                _enter_loop(node, blank)
            stack.extend((inner, 0, is_loop) for inner in reversed(node.regions))
            break
    return list(found.values())


def _enter_loop(node: Node, blank: dict[Value, Value]) -> None:
    """The first trip finds what was there before, unless an earlier arm of a trip may write it."""
    region = node.regions[0]
    triples = zip(region.params[1:], node.attrs["inits"], region.yields, strict=True)
    for param, init, end in triples:
        if not isinstance(init, Value) or init not in blank:
            continue
        if end is param or not _in_branch(region, param):
            blank[param] = blank[init]


def _in_branch(region: Region, param: Value) -> bool:
    """Whether a branch of the body reads or writes it: then a later trip may find it written."""
    return any(
        param in inner.operands
        for node in region.nodes
        if node.op.name == "cond"
        for arm in node.regions
        for inner in walk(arm)
    )


def _visit(node: Node, blank: dict[Value, Value]) -> Iterator[Value]:
    """The makers of the memory that a node reads before anything wrote it."""
    if node.op.name == "empty":
        blank[node.result] = node.result
        return
    target = _target(node)
    for index, value in enumerate(node.operands):
        if value not in blank or index == target:
            continue
        if node.op.name in _PASSING:
            blank[node.result] = blank[value]
            continue
        yield blank[value]


def _unwritten(node: Node, origin: Value) -> PyptoError:
    storage = origin.storage
    name = storage.name if storage is not None else ""
    label = f"`{name}`" if name else "a tensor of the kernel's own"
    return error(
        ValueError,
        f"{label} is read but never written before: its elements hold no value",
        code="F40000",
        loc=node.loc,
        fix="fill it first: `t[:] = pypto.zeros(…)`, `t.fill_(0)`, or write the part that is read",
    )
