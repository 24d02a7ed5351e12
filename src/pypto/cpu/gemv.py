"""Products of a matrix and a vector, for matrix products with few columns or few rows.

In: the kind of a matrix product.  Out: the name of an internal function.  Where k is adjacent, rows
are dot products; where rows are adjacent, a register holds one k of many rows.  Both sum in the
same order: one partial sum for every residue of k modulo the lanes, these by halves, then the k
that fill no register one by one.
"""

from __future__ import annotations

from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.lanes import FP32, Lane, Lanes
from pypto.cpu.panels import Kind, multiple, shuffle

# Elements of k in one go: the vector, widened, stays in L1 beside the rows that pass it.
DEPTH = 2048


def matrix_vector(module: Module, kind: Kind) -> str:
    """`void f(ptr A, i64 rs, i64 cs, ptr x, i64 xs, ptr y, i64 ys, i64 M, i64 K, i1 add,
    ptr scratch)`: y = A · x, or y += A · x; scratch has room for DEPTH words.
    """
    return "@" + module.once(
        ("matrix_vector", kind), lambda name: _Emitter(module, kind, name).code
    )


class _Emitter:
    """The function while it is written: its parameters and the vector at hand."""

    def __init__(self, module: Module, kind: Kind, name: str) -> None:
        self.kind = kind
        self.dtype = kind.result
        self.a, self.rs, self.cs = Reg("%a", "ptr"), Reg("%rs", "i64"), Reg("%cs", "i64")
        self.y, self.ys = Reg("%y", "ptr"), Reg("%ys", "i64")
        x, xs, m, k = Reg("%x", "ptr"), Reg("%xs", "i64"), Reg("%m", "i64"), Reg("%k", "i64")
        add, scratch = Reg("%add", "i1"), Reg("%scratch", "ptr")
        params = [self.a, self.rs, self.cs, x, xs, self.y, self.ys, m, k, add, scratch]
        self.code = code = Function(module, name, params, attributes="nounwind noinline")
        self.lanes = Lanes(code, kind.lanes)
        self.spill = code.local(kind.vector, 64)
        # Once also for K = 0, which gives zeros.
        with code.loop(i64(0), code.most(k, i64(1)), DEPTH) as self.first:
            self.depth = code.least(code.sub(k, self.first), i64(DEPTH))
            later = code.compare("sgt", self.first, i64(0))
            self.add = code.let("i1", f"or i1 {add}, {later}")
            self.x = self._vector(x, xs, scratch)
            self._rows(m)
        code.ret()

    # --- elements --------------------------------------------------------------------------------

    def _wide(self, width: int, at: Reg) -> Lane:
        """Adjacent elements as they are summed."""
        lanes = Lanes(self.code, width)
        return lanes.convert(lanes.load(at, self.kind.dtype), self.dtype)

    def _element(self, i: Reg, k: Reg) -> Reg:
        """Where A[i, k] lies."""
        code = self.code
        offset = code.add(code.mul(i, self.rs), code.mul(code.add(self.first, k), self.cs))
        return code.at(self.kind.memory, self.a, offset)

    def _of_x(self, width: int, k: Reg) -> Lane:
        return Lanes(self.code, width).load(self.code.at(self.kind.word, self.x, k), self.dtype)

    def _vector(self, x: Reg, xs: Reg, scratch: Reg) -> Reg:
        """The elements of the vector side by side and widened: in place, or a copy."""
        code, kind = self.code, self.kind
        base = code.at(kind.memory, x, code.mul(self.first, xs))
        adjacent = code.compare("eq", xs, i64(1))
        if self.dtype is kind.dtype:
            copied = code.let("i64", f"select i1 {adjacent}, i64 0, i64 {self.depth}")
            vectors = i64(0)
        else:
            copied = self.depth
            whole = multiple(code, self.depth, kind.lanes)
            vectors = code.let("i64", f"select i1 {adjacent}, i64 {whole}, i64 0")
        for width, begin, end in ((kind.lanes, i64(0), vectors), (1, vectors, copied)):
            with code.loop(begin, end, width) as k:
                found = self._wide(width, code.at(kind.memory, base, code.mul(k, xs)))
                Lanes(code, width).store(found, code.at(kind.word, scratch, k))
        if self.dtype is kind.dtype:
            return code.let("ptr", f"select i1 {adjacent}, ptr {base}, ptr {scratch}")
        return scratch

    def _multiply(self, lanes: Lanes, a: Lane, b: Lane, to: Lane) -> Lane:
        return lanes.fma(a, b, to) if self.dtype is FP32 else lanes.add(to, lanes.mul(a, b))

    # --- rows ------------------------------------------------------------------------------------

    def _rows(self, m: Reg) -> None:
        code, kind = self.code, self.kind
        group = min(kind.lanes, 8)
        adjacent = code.compare("eq", self.cs, i64(1))
        down = code.compare("eq", self.rs, i64(1))
        groups, columns = multiple(code, m, group), multiple(code, m, kind.lanes)
        grouped = code.let("i64", f"select i1 {adjacent}, i64 {groups}, i64 0")
        down = code.let("i64", f"select i1 {down}, i64 {columns}, i64 0")
        lowered = code.let("i64", f"select i1 {adjacent}, i64 0, i64 {down}")
        with code.loop(i64(0), grouped, group) as i:
            self._dots(i, group, gather=False)
        with code.loop(i64(0), lowered, kind.lanes) as i:
            self._down(i)
        rest = code.add(grouped, lowered)  # one of them is zero
        single, scattered = (
            code.let("i64", f"select i1 {adjacent}, i64 {a}, i64 {b}")
            for a, b in ((m, rest), (rest, m))
        )
        with code.loop(rest, single) as i:
            self._dots(i, 1, gather=False)
        with code.loop(rest, scattered) as i:
            self._dots(i, 1, gather=True)

    def _sums(self, count: int) -> list[Reg]:
        made = [self.code.local(self.kind.vector) for _ in range(count)]
        for one in made:
            self.code.store(Reg("zeroinitializer", self.kind.vector), one)
        return made

    def _onto(self, a: Lane, b: Lane, to: Reg) -> None:
        before = Lane(self.code.load(self.kind.vector, to), self.dtype)
        after = self._multiply(self.lanes, a, b, before)
        self.code.store(Reg(after.reg, self.kind.vector), to)

    def _dots(self, i: Reg, count: int, gather: bool) -> None:
        """Dot products of some rows with the vector."""
        code, kind = self.code, self.kind
        rows = [code.add(i, i64(r)) for r in range(count)]
        sums = self._sums(count)
        whole = multiple(code, self.depth, kind.lanes)
        with code.loop(i64(0), whole, kind.lanes) as k:
            x = self._of_x(kind.lanes, k)
            for row, to in zip(rows, sums, strict=True):
                a = (
                    self._gathered(row, k)
                    if gather
                    else self._wide(kind.lanes, self._element(row, k))
                )
                self._onto(a, x, to)
        folded = self._folded([code.load(kind.vector, one) for one in sums])
        self._give(folded, i, count, whole)

    def _gathered(self, i: Reg, k: Reg) -> Lane:
        found = "poison"
        kind = self.kind
        for lane in range(kind.lanes):
            one = self._wide(1, self._element(i, self.code.add(k, i64(lane))))
            found = self.code.let(
                kind.vector,
                f"insertelement {kind.vector} {found}, {kind.word} {one.reg}, i64 {lane}",
            )
        return Lane(found, self.dtype)

    def _folded(self, sums: list[Reg]) -> Reg:
        """The sum of each register, side by side.

        A register holds segments of `size` lanes, one a sum; two registers become one while there
        are two, and in every step the upper half of each segment is added to the lower.
        """
        size, width = self.kind.lanes, self.kind.lanes
        while size > 1:
            half = size // 2
            pairs = list(zip(sums[::2], sums[1::2], strict=True)) if len(sums) > 1 else [sums * 2]
            starts = range(0, width * min(len(sums), 2), size)
            lower = [start + lane for start in starts for lane in range(half)]
            upper = [spot + half for spot in lower]
            sums = [
                self._plus(shuffle(self.code, a, b, lower), shuffle(self.code, a, b, upper))
                for a, b in pairs
            ]
            size, width = half, len(lower)
        return sums[0]

    def _plus(self, a: Reg, b: Reg) -> Reg:
        add = "fadd" if self.dtype is FP32 else "add"
        return self.code.let(a.type, f"{add} {a.type} {a}, {b}")

    def _down(self, i: Reg) -> None:
        """As many rows as lanes, side by side in a register."""
        code, kind = self.code, self.kind
        sums = self._sums(kind.lanes)
        whole = multiple(code, self.depth, kind.lanes)

        def onto(k: Reg, to: Reg) -> None:
            x = self.lanes.spread(self._of_x(1, k))
            self._onto(self._wide(kind.lanes, self._element(i, k)), x, to)

        with code.loop(i64(0), whole, kind.lanes) as k:
            for step, to in enumerate(sums):
                onto(code.add(k, i64(step)), to)
        regs = [code.load(kind.vector, one) for one in sums]
        while len(regs) > 1:
            half = len(regs) // 2
            regs = [self._plus(a, b) for a, b in zip(regs[:half], regs[half:], strict=True)]
        code.store(regs[0], sums[0])
        with code.loop(whole, self.depth) as k:
            onto(k, sums[0])
        self._give(code.load(kind.vector, sums[0]), i, kind.lanes, self.depth)

    # --- results ---------------------------------------------------------------------------------

    def _give(self, sums: Reg, i: Reg, count: int, done: Reg) -> None:
        """Store, or add, the sums of adjacent rows, to which the k from `done` on are missing."""
        code, kind = self.code, self.kind
        at = code.at(kind.word, self.y, code.mul(i, self.ys))
        complete = code.compare("eq", done, self.depth)
        adjacent = code.compare("eq", self.ys, i64(1))
        quick = code.let("i1", f"and i1 {complete}, {adjacent}")
        together, singly, end = (code.module.label() for _ in range(3))
        code.branch(quick, together, singly)
        code.start(together)
        code.store(sums, self.spill)
        with code.when(self.add):
            code.store(self._plus(code.load(sums.type, at, 4), sums), self.spill)
        code.store(code.load(sums.type, self.spill), at, 4)
        code.jump(end)
        code.start(singly)
        code.store(sums, self.spill)
        with code.loop(i64(0), i64(count)) as row:
            spot = code.at(kind.word, self.spill, row)
            with code.loop(done, self.depth) as k:
                a = self._wide(1, self._element(code.add(i, row), k))
                before = Lane(code.load(kind.word, spot), self.dtype)
                after = self._multiply(Lanes(code, 1), a, self._of_x(1, k), before)
                code.store(Reg(after.reg, kind.word), spot)
            there = code.at(kind.word, at, code.mul(row, self.ys))
            with code.when(self.add):
                code.store(
                    self._plus(code.load(kind.word, there), code.load(kind.word, spot)), spot
                )
            code.store(code.load(kind.word, spot), there)
        code.jump(end)
        code.start(end)
