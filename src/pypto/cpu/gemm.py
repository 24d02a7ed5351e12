"""Matrix products: C = A · B, or C += A · B, for a kernel's module.

In: a target, and per product a `Product`: the element type and the sizes that are known.  Out: the
name of an internal function, shared by all sites of one kind,

    void f(ptr A, i64 rsA, i64 csA, ptr B, i64 rsB, i64 csB, ptr C, i64 rsC,
           i64 M, i64 N, i64 K, ptr scratch)

Strides count elements and may transpose; C has FP32 elements (INT32 for INT8), adjacent in a row,
and overlaps neither A nor B.  `scratch` holds `scratch_bytes(...)` bytes, aligned to 64.  FP16 and
BF16 are widened; every sum runs in FP32 with fused multiply-adds, in an order that follows from
M, N, K and the target alone.  INT8 is exact and wraps.

Blocks of B are packed into panels as wide as the micro-kernel; A is read where it lies, since a
broadcast does not care for strides, and is copied only to widen it or to keep a large block of it
close.  Few columns or few rows go to a product of matrix and vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pypto.cpu import gemv
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.gemv import matrix_vector
from pypto.cpu.lanes import FP32, INT32, Lane, Lanes
from pypto.cpu.panels import INT8, Kind, copy, kind_of, multiple, pack, word_count
from pypto.cpu.target import Target
from pypto.ir.dtype import DataType

# Blocks in words of four bytes.  A panel of B (DEPTH × 32) stays in L1 under the rows of A that
# pass it, the block of A (ROWS × DEPTH) in L2.
DEPTH, ROWS, COLUMNS = 256, 192, 512
# A row of the copy of A is longer than DEPTH, so that rows fall into different sets of a cache.
PITCH = DEPTH + 16
# Up to so many columns, or rows, are done one by one as vectors.
FEW_COLUMNS, FEW_ROWS = 4, 3
# FP32 elements of A beyond which it is copied by blocks.
LARGE = 1 << 17


class Product(NamedTuple):
    """What all sites that share a function have in common; a size that varies is None."""

    dtype: DataType
    m: int | None = None
    n: int | None = None
    k: int | None = None
    accumulate: bool = False


def scratch_bytes(target: Target, spec: Product) -> int:
    """The memory that a call needs, which is bounded."""
    kind = kind_of(target, spec.dtype)
    return 4 * max(_panel_words(kind, spec) + ROWS * PITCH, gemv.DEPTH)


def _panel_words(kind: Kind, spec: Product) -> int:
    """The words of the panels of B."""
    depth = DEPTH if spec.k is None else min(DEPTH, -(-spec.k // kind.per))
    columns = COLUMNS
    if spec.n is not None:
        columns = min(COLUMNS, -(-spec.n // kind.columns) * kind.columns)
    return depth * columns


# --- the micro-kernel ----------------------------------------------------------------------------


def _micro(module: Module, kind: Kind, vectors: int, edge: bool) -> str:
    """`void f(ptr A, i64 rs, i64 cs, ptr panel, ptr C, i64 rsC, i64 K, i1 add)`, all in words: a
    tile of C of `kind.rows` rows and `vectors` registers.  An edge takes the rows and columns of C
    that exist as well, `i64 m, i64 n`.
    """
    key = ("micro", kind._replace(dtype=INT8 if kind.per == 2 else FP32), vectors, edge)
    return "@" + module.once(key, lambda name: _emit_micro(module, kind, vectors, edge, name))


def _emit_micro(module: Module, kind: Kind, vectors: int, edge: bool, name: str) -> Function:
    a, rs, cs = Reg("%a", "ptr"), Reg("%rs", "i64"), Reg("%cs", "i64")
    b, c, rsc = Reg("%b", "ptr"), Reg("%c", "ptr"), Reg("%rsc", "i64")
    k, add, m, n = Reg("%k", "i64"), Reg("%add", "i1"), Reg("%m", "i64"), Reg("%n", "i64")
    params = [a, rs, cs, b, c, rsc, k, add, *([m, n] if edge else [])]
    code = Function(module, name, params, attributes="nounwind noinline")
    starts = []
    for row in range(kind.rows):
        # Rows that do not exist repeat the last one, and are not stored.
        index = code.least(i64(row), code.sub(m, i64(1))) if edge else i64(row)
        start = code.at(kind.word, a, code.mul(index, rs))
        starts.append(code.let("ptr", f'call ptr asm "", "=r,0"(ptr {start})'))
    sums = [[code.local(kind.vector) for _ in range(vectors)] for _ in starts]
    for one in (one for row in sums for one in row):
        code.store(Reg("zeroinitializer", kind.vector), one)
    offset, panel = code.local("i64"), code.local("ptr")
    code.store(i64(0), offset)
    code.store(b, panel)

    def step(count: int) -> None:
        for _ in range(count):
            _step(code, kind, starts, sums, offset, panel)
            code.store(code.add(code.load("i64", offset), cs), offset)
            code.store(code.at(kind.word, code.load("ptr", panel), str(kind.columns)), panel)

    unrolled = multiple(code, k, 4)
    with code.loop(i64(0), unrolled, 4):
        step(4)
    with code.loop(unrolled, k):
        step(1)
    if edge:
        _store_edge(code, kind, sums, c, rsc, add, m, n)
    else:
        _store(code, kind, sums, c, rsc, add)
    code.ret()
    return code


def _step(
    code: Function, kind: Kind, starts: list[Reg], sums: list[list[Reg]], offset: Reg, panel: Reg
) -> None:
    """One word of k: rows of A broadcast, times a row of the panel."""
    where, row = code.load("i64", offset), code.load("ptr", panel)
    lanes = Lanes(code, kind.lanes)
    columns = [
        code.load(kind.vector, code.at(kind.word, row, str(v * kind.lanes)), 4)
        for v in range(len(sums[0]))
    ]
    for start, into in zip(starts, sums, strict=True):
        word = code.load(kind.word, code.at(kind.word, start, where), 4)
        many = lanes.spread(Lane(word, kind.result))
        for column, to in zip(columns, into, strict=True):
            before = code.load(kind.vector, to)
            code.store(_multiply(code, kind, Reg(many.reg, kind.vector), column, before), to)


def _multiply(code: Function, kind: Kind, a: Reg, b: Reg, to: Reg) -> Reg:
    """What `to` becomes: a · b added in every lane."""
    lanes = Lanes(code, kind.lanes)
    if kind.per == 1:
        made = lanes.fma(Lane(a, FP32), Lane(b, FP32), Lane(to, FP32))
        return Reg(made.reg, kind.vector)
    if kind.dot:
        pairs = f"<{2 * kind.lanes} x i16>"
        dot = code.module.declare(kind.dot, f"{kind.vector} @({pairs}, {pairs})")
        halves = [code.let(pairs, f"bitcast {kind.vector} {x} to {pairs}") for x in (a, b)]
        products = Lane(code.call(kind.vector, dot, *halves), INT32)
        return Reg(lanes.add(products, Lane(to, INT32)).reg, kind.vector)
    sixteen = lanes.const(INT32, 16)
    total = Lane(to, INT32)
    left, right = Lane(a, INT32), Lane(b, INT32)
    upper = [lanes.shift_right(x, sixteen) for x in (left, right)]
    lower = [lanes.shift_right(lanes.shift_left(x, sixteen), sixteen) for x in (left, right)]
    for pair in (lower, upper):
        total = lanes.add(total, lanes.mul(*pair))
    return Reg(total.reg, kind.vector)


def _plus(code: Function, kind: Kind, a: Reg, b: Reg) -> Reg:
    return code.let(a.type, f"{'add' if kind.per == 2 else 'fadd'} {a.type} {a}, {b}")


def _store(code: Function, kind: Kind, sums: list[list[Reg]], c: Reg, rsc: Reg, add: Reg) -> None:
    spots = [
        (code.at(kind.word, c, code.add(code.mul(i64(row), rsc), i64(v * kind.lanes))), one)
        for row, into in enumerate(sums)
        for v, one in enumerate(into)
    ]
    with code.when(add):
        for at, one in spots:
            before = code.load(kind.vector, at, 4)
            code.store(_plus(code, kind, before, code.load(kind.vector, one)), one)
    for at, one in spots:
        code.store(code.load(kind.vector, one), at, 4)


def _store_edge(
    code: Function,
    kind: Kind,
    sums: list[list[Reg]],
    c: Reg,
    rsc: Reg,
    add: Reg,
    m: Reg,
    n: Reg,
) -> None:
    lanes = Lanes(code, kind.lanes)
    mask_type = f"<{kind.lanes} x i1>"
    suffix = f"v{kind.lanes}{'i32' if kind.per == 2 else 'f32'}.p0"
    declare = code.module.declare
    load = declare(
        f"llvm.masked.load.{suffix}", f"{kind.vector} @(ptr, i32, {mask_type}, {kind.vector})"
    )
    store = declare(f"llvm.masked.store.{suffix}", f"void @({kind.vector}, ptr, i32, {mask_type})")
    counted = ", ".join(f"i32 {lane}" for lane in range(kind.lanes))
    width = code.let("i32", f"trunc i64 {n} to i32")
    masks = []
    for v in range(len(sums[0])):
        left = code.let("i32", f"sub i32 {width}, {v * kind.lanes}")
        many = lanes.spread(Lane(left, INT32))
        masks.append(code.let(mask_type, f"icmp slt <{kind.lanes} x i32> <{counted}>, {many.reg}"))
    four = Reg("4", "i32")
    for row, into in enumerate(sums):
        with code.when(code.compare("slt", i64(row), m)):
            start = code.at(kind.word, c, code.mul(i64(row), rsc))
            for v, (one, mask) in enumerate(zip(into, masks, strict=True)):
                at = code.at(kind.word, start, str(v * kind.lanes))
                with code.when(add):
                    zero = Reg("zeroinitializer", kind.vector)
                    before = code.call(kind.vector, load, at, four, mask, zero)
                    code.store(_plus(code, kind, before, code.load(kind.vector, one)), one)
                code.call("void", store, code.load(kind.vector, one), at, four, mask)


# --- tiles of a block ----------------------------------------------------------------------------


class _Block(NamedTuple):
    """Operands of one block: words of A and of packed B, elements of C."""

    a: Reg
    rs: Reg
    cs: Reg
    panels: Reg
    c: Reg
    rsc: Reg
    m: Reg
    n: Reg
    k: Reg
    add: Reg


def _tiles(code: Function, kind: Kind, block: _Block) -> None:
    """All tiles of a block: panel after panel, the rows of A below each other."""
    whole = multiple(code, block.n, kind.columns)
    with code.loop(i64(0), whole, kind.columns) as j:
        _strip(code, kind, block, j, kind.vectors, None)
    if whole == block.n:
        return
    width = code.sub(block.n, whole)
    narrow = code.compare("sle", width, i64(kind.lanes))
    with code.when(code.compare("sgt", width, i64(0))):
        thin, wide, done = (code.module.label() for _ in range(3))
        code.branch(narrow, thin, wide)
        for label, vectors in ((thin, 1), (wide, kind.vectors)):
            code.start(label)
            _strip(code, kind, block, whole, vectors, width)
            code.jump(done)
        code.start(done)


def _strip(
    code: Function, kind: Kind, block: _Block, j: Reg, vectors: int, width: Reg | None
) -> None:
    """The tiles under one panel, of whose columns `width` exist, or all."""
    panel = code.at(kind.word, block.panels, code.mul(j, block.k))

    def tile(i: Reg, *limits: Reg) -> None:
        a = code.at(kind.word, block.a, code.mul(i, block.rs))
        c = code.at(kind.word, block.c, code.add(code.mul(i, block.rsc), j))
        function = _micro(code.module, kind, vectors, bool(limits))
        given = (a, block.rs, block.cs, panel, c, block.rsc, block.k, block.add)
        code.call("void", function, *given, *limits)

    whole = i64(0)
    if width is None:
        whole = multiple(code, block.m, kind.rows)
        with code.loop(i64(0), whole, kind.rows) as i:
            tile(i)
        if whole == block.m:
            return
    with code.loop(whole, block.m, kind.rows) as i:
        height = code.least(code.sub(block.m, i), i64(kind.rows))
        tile(i, height, width or i64(kind.columns))


# --- products ------------------------------------------------------------------------------------


def product(module: Module, target: Target, spec: Product) -> str:
    """The name of the function that computes a product."""
    kind = kind_of(target, spec.dtype)
    return "@" + module.once(
        ("product", kind, spec), lambda name: _Emitter(module, kind, spec, name).code
    )


class _Emitter:
    """A product while it is written: its parameters, constants where the sizes are known."""

    def __init__(self, module: Module, kind: Kind, spec: Product, name: str) -> None:
        self.kind, self.spec = kind, spec
        self.a, self.rsa, self.csa = Reg("%a", "ptr"), Reg("%rsa", "i64"), Reg("%csa", "i64")
        self.b, self.rsb, self.csb = Reg("%b", "ptr"), Reg("%rsb", "i64"), Reg("%csb", "i64")
        self.c, self.rsc = Reg("%c", "ptr"), Reg("%rsc", "i64")
        m, n, k = Reg("%m", "i64"), Reg("%n", "i64"), Reg("%k", "i64")
        self.scratch = Reg("%scratch", "ptr")
        params = [self.a, self.rsa, self.csa, self.b, self.rsb, self.csb, self.c, self.rsc]
        self.code = Function(module, name, [*params, m, n, k, self.scratch])
        self.m = m if spec.m is None else i64(spec.m)
        self.n = n if spec.n is None else i64(spec.n)
        self.k = k if spec.k is None else i64(spec.k)
        self.accumulate = Reg("true" if spec.accumulate else "false", "i1")
        self._few(self.n, FEW_COLUMNS, self._by_columns)
        self._few(self.m, FEW_ROWS, self._by_rows)
        self._blocks()
        self.code.ret()

    def _few(self, size: Reg, limit: int, do: Callable[[], None]) -> None:
        """Where `size` is small: `do`, and return."""
        if size.isdigit() and int(size) > limit:
            return
        with self.code.when(self.code.compare("sle", size, i64(limit))):
            do()
            self.code.ret()
            # The instructions behind a return are never reached.
            self.code.start(self.code.module.label())

    def _by_columns(self) -> None:
        """Each column of C is A times a column of B."""
        with self.code.loop(i64(0), self.n) as j:
            b = self.code.at(self.kind.memory, self.b, self.code.mul(j, self.csb))
            c = self.code.at(self.kind.word, self.c, j)
            self._vector(self.a, self.rsa, self.csa, b, self.rsb, c, self.rsc, self.m)

    def _by_rows(self) -> None:
        """Each row of C is the transposed B times a row of A."""
        with self.code.loop(i64(0), self.m) as i:
            a = self.code.at(self.kind.memory, self.a, self.code.mul(i, self.rsa))
            c = self.code.at(self.kind.word, self.c, self.code.mul(i, self.rsc))
            self._vector(self.b, self.csb, self.rsb, a, self.csa, c, i64(1), self.n)

    def _vector(self, a: Reg, rs: Reg, cs: Reg, x: Reg, xs: Reg, y: Reg, ys: Reg, m: Reg) -> None:
        function = matrix_vector(self.code.module, self.kind)
        given = (a, rs, cs, x, xs, y, ys, m, self.k, self.accumulate, self.scratch)
        self.code.call("void", function, *given)

    def _blocks(self) -> None:
        code, kind = self.code, self.kind
        depth = DEPTH * kind.per
        with code.loop(i64(0), self.n, COLUMNS) as j:
            width = code.least(code.sub(self.n, j), i64(COLUMNS))
            # Once also for K = 0, which gives zeros.
            with code.loop(i64(0), code.most(self.k, i64(1)), depth) as p:
                deep = code.least(code.sub(self.k, p), i64(depth))
                offset = code.add(code.mul(p, self.rsb), code.mul(j, self.csb))
                b = code.at(kind.memory, self.b, offset)
                given = (b, self.rsb, self.csb, self.scratch, width, deep)
                code.call("void", pack(code.module, kind), *given)
                self._rows(j, p, width, deep)

    def _rows(self, j: Reg, p: Reg, n: Reg, k: Reg) -> None:
        """The blocks of C beside one block of packed B."""
        code, kind = self.code, self.kind
        add = self.accumulate
        if add == "false":
            add = code.compare("sgt", p, i64(0))
        words = word_count(code, kind, k)
        copies = code.at(kind.word, self.scratch, str(_panel_words(kind, self.spec)))
        # A copy lies as A does.
        down = code.compare("eq", self.rsa, i64(1))
        rs = code.let("i64", f"select i1 {down}, i64 1, i64 {PITCH}")
        cs = code.let("i64", f"select i1 {down}, i64 {ROWS}, i64 1")
        with code.loop(i64(0), self.m, ROWS) as i:
            m = code.least(code.sub(self.m, i), i64(ROWS))
            offset = code.add(code.mul(i, self.rsa), code.mul(p, self.csa))
            a = code.at(kind.memory, self.a, offset)
            c = code.at(kind.word, self.c, code.add(code.mul(i, self.rsc), j))
            place = (a, self.rsa, self.csa)
            there = (copies, rs, cs)
            copied = self._copied()
            if copied == "true":
                code.call("void", copy(code.module, kind), *place, *there, m, k)
                place = there
            elif copied != "false":
                with code.when(copied):
                    code.call("void", copy(code.module, kind), *place, *there, m, k)
                place = tuple(
                    code.let(x.type, f"select i1 {copied}, {x.type} {y}, {x.type} {x}")
                    for x, y in zip(place, there, strict=True)
                )
            block = _Block(*place, self.scratch, c, self.rsc, m, n, words, add)
            _tiles(code, kind, block)

    def _copied(self) -> Reg:
        """Whether A is copied: to widen it, or because it is large and read often."""
        code = self.code
        if self.kind.dtype is not FP32:
            return Reg("true", "i1")
        size = code.mul(self.m, self.k)
        if size.isdigit():
            return Reg("true" if int(size) >= LARGE else "false", "i1")
        return code.compare("sge", size, i64(LARGE))
