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

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pypto.cpu import gemv
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.gemv import matrix_vector
from pypto.cpu.lanes import FP32
from pypto.cpu.micro import micro
from pypto.cpu.panels import Kind, copy, kind_of, multiple, pack, word_count
from pypto.cpu.target import Target
from pypto.ir.dtype import DataType

# Blocks in words of four bytes.  A panel of B (DEPTH × 32) stays in L1 under the rows of A that
# pass it, the block of A (ROWS × DEPTH) in L2.
DEPTH, ROWS, COLUMNS = 384, 192, 512
# By so much a row of the copy of A is longer than a block is deep, so that the rows of a tile fall
# into different sets of a cache.
PAD = 16
# Up to so many columns, or rows, are done one by one as vectors.
FEW_COLUMNS, FEW_ROWS = 4, 3
# FP32 elements of A beyond which it is copied by blocks.
LARGE = 1 << 17


Place = tuple[Reg, Reg, Reg]  # a matrix: its address, the strides of rows and columns


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
    depth, rows, columns = _extents(kind, spec)
    copied = 0 if _copies(kind, spec) is False else rows * (depth + PAD)
    return 4 * max(depth * columns + copied, gemv.DEPTH)


def _extents(kind: Kind, spec: Product) -> tuple[int, int, int]:
    """The words of k and rows of A in a block, and the columns of B in panels at one time."""
    depth = DEPTH if spec.k is None else min(DEPTH, -(-spec.k // kind.per))
    rows = ROWS if spec.m is None else min(ROWS, spec.m)
    columns = COLUMNS if spec.n is None else min(COLUMNS, whole(spec.n, kind.columns))
    if spec.m is not None and spec.m <= ROWS:
        columns = kind.columns  # all rows of A pass a panel at once, and the next takes its place
    return depth, whole(rows, PAD), columns


def _copies(kind: Kind, spec: Product) -> bool | None:
    """Whether A is copied: to widen it, or because it is large and read often; None if it is seen
    when the product runs.
    """
    if kind.dtype is not FP32:
        return True
    if spec.m is None or spec.k is None:
        return None
    return spec.m * spec.k >= LARGE


def whole(number: int, of: int) -> int:
    """The least multiple that is not below `number`."""
    return -(-number // of) * of


# --- tiles of a block ----------------------------------------------------------------------------


class _Block(NamedTuple):
    """Operands of one block: words of A, elements of B, which are packed if they are new, the
    panels of B, `pitch` words of each of their rows apart, elements of C.
    """

    a: Reg
    rs: Reg
    cs: Reg
    b: Reg
    rsb: Reg
    csb: Reg
    new: Reg
    panels: Reg
    pitch: Reg
    c: Reg
    rsc: Reg
    m: Reg
    n: Reg
    k: Reg
    words: Reg
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
    panel = code.at(kind.word, block.panels, code.mul(j, block.pitch))
    # A panel is packed just before the rows of A pass it, so that it still lies in L1 then.
    with code.when(block.new):
        b = code.at(kind.memory, block.b, code.mul(j, block.csb))
        given = (b, block.rsb, block.csb, panel, width or i64(kind.columns), block.k)
        code.call("void", pack(code.module, kind), *given)

    def tile(i: Reg, *limits: Reg) -> None:
        a = code.at(kind.word, block.a, code.mul(i, block.rs))
        c = code.at(kind.word, block.c, code.add(code.mul(i, block.rsc), j))
        given = (a, block.rs, block.cs, panel, c, block.rsc, block.words, block.add)
        code.call("void", micro(code.module, kind, vectors, bool(limits)), *given, *limits)

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

    @contextmanager
    def _steps(self, size: Reg, step: int) -> Iterator[Reg]:
        """A loop by blocks; of a size that is known to fit one block, that block alone, so that
        tiles at edges are emitted only where there are edges.
        """
        if size.isdigit() and 0 < int(size) <= step:
            yield i64(0)
            return
        with self.code.loop(i64(0), size, step) as index:
            yield index

    def _blocks(self) -> None:
        code, kind = self.code, self.kind
        depth = DEPTH * kind.per
        with self._steps(self.n, COLUMNS) as j:
            width = code.least(code.sub(self.n, j), i64(COLUMNS))
            # Once also for K = 0, which gives zeros.
            with self._steps(code.most(self.k, i64(1)), depth) as p:
                deep = code.least(code.sub(self.k, p), i64(depth))
                offset = code.add(code.mul(p, self.rsb), code.mul(j, self.csb))
                b = code.at(kind.memory, self.b, offset)
                self._rows(j, p, b, width, deep)

    def _rows(self, j: Reg, p: Reg, b: Reg, n: Reg, k: Reg) -> None:
        """The blocks of C that one block of B has a part in."""
        code, kind = self.code, self.kind
        add = self.accumulate
        if add == "false":
            add = code.compare("sgt", p, i64(0))
        words = word_count(code, kind, k)
        once = code.compare("sle", self.m, i64(ROWS))
        pitch = code.let("i64", f"select i1 {once}, i64 0, i64 {words}")
        depth, rows, columns = _extents(kind, self.spec)
        copies = code.at(kind.word, self.scratch, str(depth * columns))
        # A copy lies as A does.
        down = code.compare("eq", self.rsa, i64(1))
        rs = code.let("i64", f"select i1 {down}, i64 1, i64 {depth + PAD}")
        cs = code.let("i64", f"select i1 {down}, i64 {rows}, i64 1")
        with self._steps(self.m, ROWS) as i:
            m = code.least(code.sub(self.m, i), i64(ROWS))
            offset = code.add(code.mul(i, self.rsa), code.mul(p, self.csa))
            a = code.at(kind.memory, self.a, offset)
            c = code.at(kind.word, self.c, code.add(code.mul(i, self.rsc), j))
            place = self._copied((a, self.rsa, self.csa), (copies, rs, cs), m, k)
            new = code.compare("eq", i, i64(0))
            packed = (b, self.rsb, self.csb, new, self.scratch, pitch)
            _tiles(code, kind, _Block(*place, *packed, c, self.rsc, m, n, k, words, add))

    def _copied(self, place: Place, there: Place, m: Reg, k: Reg) -> Place:
        """Where the words of A are read: where it lies, or where it is copied to."""
        code, known = self.code, _copies(self.kind, self.spec)
        if known is False:
            return place
        large = code.compare("sge", code.mul(self.m, self.k), i64(LARGE))
        copied = Reg("true", "i1") if known else large
        with code.when(copied):
            code.call("void", copy(code.module, self.kind), *place, *there, m, k)
        a, rs, cs = (
            code.let(x.type, f"select i1 {copied}, {x.type} {y}, {x.type} {x}")
            for x, y in zip(place, there, strict=True)
        )
        return a, rs, cs
