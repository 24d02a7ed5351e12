"""The micro-kernel of matrix products: one tile of C, held in registers while k runs.

In: rows of A anywhere, each word of which is broadcast, and a packed panel of B.  Out: the name of
an internal function.  An edge tile stores only what exists.
"""

from __future__ import annotations

from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.lanes import FP32, INT32, Lane, Lanes
from pypto.cpu.panels import INT8, Kind, multiple


def micro(module: Module, kind: Kind, vectors: int, edge: bool) -> str:
    """`void f(ptr A, i64 rs, i64 cs, ptr panel, ptr C, i64 rsC, i64 K, i1 add)`, all in words: a
    tile of `kind.rows` rows and `vectors` registers.  An edge also takes the rows and columns that
    exist, `i64 m, i64 n`.
    """
    # Words of FP32 are the same whatever they were widened from.
    kind = kind._replace(dtype=INT8 if kind.per == 2 else FP32)
    key = ("micro", kind, vectors, edge)
    return "@" + module.once(key, lambda name: _Micro(module, kind, vectors, edge, name).code)


class _Micro:
    """The function while it is written."""

    def __init__(self, module: Module, kind: Kind, vectors: int, edge: bool, name: str) -> None:
        a, self.rs, self.cs = Reg("%a", "ptr"), Reg("%rs", "i64"), Reg("%cs", "i64")
        panel, self.c, self.rsc = Reg("%panel", "ptr"), Reg("%c", "ptr"), Reg("%rsc", "i64")
        k, self.add = Reg("%k", "i64"), Reg("%add", "i1")
        self.m, self.n = Reg("%m", "i64"), Reg("%n", "i64")
        params = [a, self.rs, self.cs, panel, self.c, self.rsc, k, self.add]
        params += [self.m, self.n] if edge else []
        self.kind, self.vectors, self.edge = kind, vectors, edge
        self.code = code = Function(module, name, params, attributes="nounwind noinline")
        self.lanes = Lanes(code, kind.lanes)
        self.starts = [self._start(a, row) for row in range(kind.rows)]
        self.sums = [[code.local(kind.vector) for _ in range(vectors)] for _ in self.starts]
        for one in (one for row in self.sums for one in row):
            code.store(Reg("zeroinitializer", kind.vector), one)
        # Where k stands: words from the start of a row of A, and the row of the panel.
        self.offset, self.panel = code.local("i64"), code.local("ptr")
        code.store(i64(0), self.offset)
        code.store(panel, self.panel)
        unrolled = multiple(code, k, 4)
        with code.loop(i64(0), unrolled, 4):
            for _ in range(4):
                self._step()
        with code.loop(unrolled, k):
            self._step()
        if edge:
            self._store_edge()
        else:
            self._store()
        code.ret()

    def _start(self, a: Reg, row: int) -> Reg:
        """The first word of a row of A; at an edge rows that do not exist repeat the last one."""
        code, index = self.code, i64(row)
        if self.edge:
            index = code.least(index, code.sub(self.m, i64(1)))
        return self._kept(code.at(self.kind.word, a, code.mul(index, self.rs)))

    def _kept(self, value: Reg) -> Reg:
        """The value, about whose origin nothing is known.

        LLVM would else reach each row by adding a stride to the one before, a chain of additions as
        long as the arithmetic, or keep a pointer for every row and step of k and spill them.
        """
        return self.code.let(value.type, f'call {value.type} asm "", "=r,0"({value.type} {value})')

    def _step(self) -> None:
        """One word of k: rows of A broadcast, times a row of B."""
        code, kind = self.code, self.kind
        where, columns = code.load("i64", self.offset), self._columns()
        for start, into in zip(self.starts, self.sums, strict=True):
            word = code.load(kind.word, code.at(kind.word, start, where), 4)
            many = self.lanes.spread(Lane(word, kind.result))
            for column, to in zip(columns, into, strict=True):
                before = Lane(code.load(kind.vector, to), kind.result)
                code.store(self._multiply(many, column, before), to)
        code.store(self._kept(code.add(where, self.cs)), self.offset)

    def _columns(self) -> list[Lane]:
        """A row of the panel, and a step to the next one."""
        code, kind = self.code, self.kind
        panel = code.load("ptr", self.panel)
        code.store(code.at(kind.word, panel, str(kind.columns)), self.panel)
        spots = [code.at(kind.word, panel, str(v * kind.lanes)) for v in range(self.vectors)]
        return [Lane(code.load(kind.vector, at, 4), kind.result) for at in spots]

    def _multiply(self, a: Lane, b: Lane, to: Lane) -> Reg:
        """What the sum `to` becomes."""
        code, kind, lanes = self.code, self.kind, self.lanes
        if kind.per == 1:
            return Reg(lanes.fma(a, b, to).reg, kind.vector)
        if kind.dot:
            pairs = f"<{2 * kind.lanes} x i16>"
            dot = code.module.declare(kind.dot, f"{kind.vector} @({pairs}, {pairs})")
            halves = [code.let(pairs, f"bitcast {kind.vector} {x.reg} to {pairs}") for x in (a, b)]
            products = Lane(code.call(kind.vector, dot, *halves), INT32)
            return Reg(lanes.add(products, to).reg, kind.vector)
        sixteen = lanes.const(INT32, 16)
        upper = [lanes.shift_right(x, sixteen) for x in (a, b)]
        lower = [lanes.shift_right(lanes.shift_left(x, sixteen), sixteen) for x in (a, b)]
        total = lanes.add(lanes.add(to, lanes.mul(*lower)), lanes.mul(*upper))
        return Reg(total.reg, kind.vector)

    # --- results ---------------------------------------------------------------------------------

    def _store(self) -> None:
        code, kind, lanes = self.code, self.kind, self.lanes
        spots = []
        for row, into in enumerate(self.sums):
            start = code.at(kind.word, self.c, code.mul(i64(row), self.rsc))
            for v, one in enumerate(into):
                spots.append((code.at(kind.word, start, str(v * kind.lanes)), one))
        with code.when(self.add):
            for at, one in spots:
                before, alone = (code.load(kind.vector, place, 4) for place in (at, one))
                both = lanes.add(Lane(before, kind.result), Lane(alone, kind.result))
                code.store(Reg(both.reg, kind.vector), one)
        for at, one in spots:
            code.store(code.load(kind.vector, one), at, 4)

    def _store_edge(self) -> None:
        """The rows and columns that exist."""
        code, kind = self.code, self.kind
        masks = [self._mask(v * kind.lanes) for v in range(self.vectors)]
        for row, into in enumerate(self.sums):
            with code.when(code.compare("slt", i64(row), self.m)):
                start = code.at(kind.word, self.c, code.mul(i64(row), self.rsc))
                for v, (one, mask) in enumerate(zip(into, masks, strict=True)):
                    at = code.at(kind.word, start, str(v * kind.lanes))
                    self._store_part(one, at, mask)

    def _mask(self, first: int) -> Reg:
        """Which of the columns from `first` on exist."""
        code, lanes = self.code, self.lanes
        left = code.let("i32", f"trunc i64 {code.sub(self.n, i64(first))} to i32")
        many = lanes.spread(Lane(left, INT32))
        counted = ", ".join(f"i32 {lane}" for lane in range(lanes.width))
        kind = lanes.type(INT32)
        return code.let(f"<{lanes.width} x i1>", f"icmp slt {kind} <{counted}>, {many.reg}")

    def _store_part(self, sum: Reg, at: Reg, mask: Reg) -> None:
        """The columns of a mask: chosen without a branch, since edges have many of these."""
        code, kind, lanes = self.code, self.kind, self.lanes
        vector = kind.vector
        suffix = f"v{kind.lanes}{'f32' if kind.per == 1 else 'i32'}.p0"
        declare, align = code.module.declare, Reg("4", "i32")
        load = declare(f"llvm.masked.load.{suffix}", f"{vector} @(ptr, i32, {mask.type}, {vector})")
        store = declare(f"llvm.masked.store.{suffix}", f"void @({vector}, ptr, i32, {mask.type})")
        none = Reg("zeroinitializer", vector)
        taken = code.let(mask.type, f"select i1 {self.add}, {mask.type} {mask}, {mask.type} {none}")
        before = code.call(vector, load, at, align, taken, none)
        alone = code.load(vector, sum)
        both = lanes.add(Lane(before, kind.result), Lane(alone, kind.result))
        made = code.let(vector, f"select i1 {self.add}, {vector} {both.reg}, {vector} {alone}")
        code.call("void", store, made, at, align, mask)
