"""The grammar of random kernels: one `Writer` writes the source text of one kernel.

In: a seed. Out: the text, the shapes of its arguments and the names of the constructs in it. The
writer keeps to forms that have a plain meaning under tracing: it tracks which tensors a name may
stand for, so that it never writes in place through a name that control flow merged, and which rows
of a tensor are valid. More than 600 lines, since the statements of one grammar belong together.
"""

import ast
import random
import re
from dataclasses import dataclass, field, replace

import numpy as np

FULL, SOME, ANY = 2, 1, 0  # valid rows of a tensor: all; at least one; perhaps none
F32, I32 = "pypto.DT_FP32", "pypto.DT_INT32"


# What a helper does, how it is called, and its text; K becomes a small number.
_HELPERS = {
    "put_rows": (
        "rows",
        "{f}({t}, {o}, {v})",
        """\
def put_rows(dst, at, rows):
    pypto.assemble(rows, [at, 0], dst)""",
    ),
    "add_row": (
        "rows",
        "{f}({t}, at={o}, row={v})",
        """\
def add_row(dst, at, row):
    dst[at:at + 1, :] = dst[at:at + 1, :] + row * K""",
    ),
    "bump": (
        "whole",
        "{f}({t}, {e})",
        """\
def bump(t, by=1):
    t[:] = t + by""",
    ),
    "spin": (
        "whole",
        "{f}({t}, {e})",
        """\
def spin(t, trips):
    for q in pypto.loop(trips):
        t[:] = t - q + K""",
    ),
    "nudge": (
        "whole",
        "{f}({t}, {e})",
        """\
def nudge(t, way):
    if way > 1:
        t[:] = -t
    elif way == 0:
        t.move(t + 1)""",
    ),
    "both": (
        "pair",
        "{f}({a}, {b})",
        """\
def both(a, b):
    t = a + b
    return t, a - b""",
    ),
    "pick": (  # in mode 1 the second result is the first argument itself
        "pair",
        "{f}({a}, {b}, {k})",
        """\
def pick(a, b, mode):
    if mode == 1:
        return a + b, a
    if mode > 1:
        return b - a, a * 2
    return a + 1, b + a""",
    ),
    "grown": (  # its argument itself when the loop makes no trip
        "maybe",
        "{f}({t}, {e})",
        """\
def grown(t, trips):
    for q in pypto.loop(trips):
        t = t + q
    return t""",
    ),
    "choose": (
        "value",
        "{f}({a}, {b}, {e})",
        """\
def choose(a, b, e):
    if e > 2:
        r = a + b
    else:
        r = a - b
    return r""",
    ),
    "deep": (
        "value",
        "{f}({a}, {k})",
        """\
def deep(t, d):
    return t + 0 if d == 0 else deep(t + 1, d - 1) + t""",
    ),
    "named": (
        "value",
        "{f}(t={a}, c={k})",
        """\
def named(**kw):
    return kw["t"] + kw.get("c", 2) - kw.get("d", 1)""",
    ),
    "applied": (
        "value",
        "{f}(lambda v: v + {k}, {a})",
        """\
def applied(f, t):
    return f(t)""",
    ),
    "summed": (
        "value",
        "({f}({a}, {e}) + 0)",
        """\
def summed(t, e):
    total = t * 0
    for q in pypto.loop(min(max(e, 0), 3)):
        if q == 1:
            total = total - t
        else:
            total = total + t
    return total""",
    ),
}
_PAIR = """\
class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def bump(self, t, by):
        t[:] = t + by"""


@dataclass(eq=False)
class _Frame:
    """An open loop or branch while its body is written."""

    loop: bool
    outer: set = field(default_factory=set)  # names bound before it
    carried: set = field(default_factory=set)  # those of them that its body may rebind
    stored: set = field(default_factory=set)
    written: set = field(default_factory=set)  # stores written in place in its body


@dataclass(eq=False)
class _Store:
    """A tensor as Python sees it: names are aliases when they share one."""

    cls: int
    frames: tuple = ()  # the frames that were open when it was made
    head: _Frame | None = None  # stands for what a carried name holds when a trip of it begins
    frozen: bool = False  # never written in place again
    pinned: bool = False  # may not be frozen


@dataclass(frozen=True)
class _Tensor:
    name: str
    shape: tuple
    stores: frozenset
    cls: int = FULL
    merged: bool = False  # holds a value that control flow chose
    integer: bool = False
    dynamic: bool = False  # rows are symbolic: only windows of it are operands
    place: bool = False  # an element of a container: never rebound
    choice: bool = False  # perhaps a tensor from before a region: never written in place


@dataclass
class _Env:
    tensors: dict
    ints: dict  # name → (lowest, highest) or None

    def copy(self):
        return _Env(dict(self.tensors), dict(self.ints))


class Writer:
    """Writes one kernel: `write()` gives its text, `arguments()` what to call it with."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.features = set()
        self.lines, self.indent, self.frames = [], 1, []
        self.env = _Env({}, {})
        self.reserved = set()  # names that a statement still needs
        self.fixed = set()  # names that are never rebound: indices and static counters
        self.helpers, self.defs, self.closures = [], [], []
        self.serial = 0
        self.cols = self.r.choice((4, 8))
        self.params = []
        self._parameters()

    # ---- small things -------------------------------------------------------------------------

    def chance(self, p):
        return self.r.random() < p

    def saw(self, feature):
        self.features.add(feature)

    def put(self, line):
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix):
        self.serial += 1
        return f"{prefix}{self.serial}"

    def unused(self, prefix):
        """A short name that is not in scope; often one that an earlier block used and left."""
        taken = {*self.env.tensors, *self.env.ints, *self.reserved}
        return next(n for k in range(99) if (n := f"{prefix}{k}") not in taken)

    def _parameters(self):
        r, c = self.r, self.cols
        rows = r.choice((4, 5, 6, 8))
        dynamic = self.chance(0.5)
        empty = dynamic and self.chance(0.1)
        self._param("x", (0 if empty else 4 if dynamic else rows, c), dynamic, pinned=False)
        self._param("out", (8, c), self.chance(0.25))
        if self.chance(0.5):
            self._param("y", (c, c), False, pinned=False)
        if self.chance(0.25):
            self._param("acc", (4, c), False)
        self._param("n", (8,), False, integer=True)
        if self.chance(0.6):
            self._param("res", (8,), False, integer=True)
        self.rows = rows

    def _param(self, name, shape, dynamic, *, pinned=True, integer=False):
        store = _Store(FULL, pinned=pinned)
        t = _Tensor(name, shape, frozenset([store]), integer=integer, dynamic=dynamic)
        self.env.tensors[name] = t
        self.params.append(t)

    # ---- names and what they stand for --------------------------------------------------------

    def rebindable(self, name):
        return name not in self.fixed and all(
            name not in f.outer or name in f.carried for f in self.frames if f.loop
        )

    def stored(self, name):
        for f in self.frames:
            f.stored.add(name)

    def bind(self, name, shape, cls=FULL, *, stores=None, merged=False, integer=False):
        stores = stores or frozenset([_Store(cls, tuple(self.frames))])
        self.env.ints.pop(name, None)
        self.env.tensors[name] = _Tensor(name, shape, stores, cls, merged, integer)
        self.stored(name)

    def bind_int(self, name, known=None):
        self.env.tensors.pop(name, None)
        self.env.ints[name] = known
        self.stored(name)

    def can_freeze(self, stores):
        loops = [f for f in self.frames if f.loop]
        return not any(s.pinned or any(s in f.written for f in loops) for s in stores)

    def bind_alias(self, name, t, *, merged=False):
        """`name = t`; False if the writer may not: a later write would tell alias from value."""
        outside = [s for s in t.stores if not self.frames or self.frames[-1] not in s.frames]
        if merged or (self.frames and name in self.env.tensors):
            if not self.can_freeze(t.stores if merged else outside):
                return False
            for s in t.stores if merged else outside:
                s.frozen = True
        self.bind(name, t.shape, t.cls, stores=t.stores, merged=t.merged or merged)
        self.env.tensors[name] = replace(self.env.tensors[name], choice=t.choice)
        return True

    def can_write(self, t):
        if t.choice or any(s.frozen or s.head in self.frames for s in t.stores):
            return False
        for f in self.frames:
            carried = f.loop and t.name in f.carried
            if carried and not all(f in s.frames for s in t.stores):
                return False
        for other in self.env.tensors.values():
            if other.name != t.name and other.stores & t.stores:
                if t.merged or other.merged or len(t.stores | other.stores) > 1:
                    return False
        return True

    def wrote(self, t):
        for f in self.frames:
            if f.loop:
                f.written |= t.stores

    def writable(self, test=lambda t: True):
        found = [
            t for t in self.env.tensors.values() if not t.integer and test(t) and self.can_write(t)
        ]
        # The outputs are written more often than anything else, the inputs seldom.
        weight = {"out": 6, "acc": 3, "x": 0.3, "y": 0.3}
        return self.r.choices(found, [weight.get(t.name, 2) for t in found])[0] if found else None

    def names(self, test=lambda t: True):
        return [
            t
            for t in self.env.tensors.values()
            if not (t.place or t.integer or t.dynamic or t in self.params) and test(t)
        ]

    def carriers(self, test=lambda t: True):
        """Names that may be rebound here."""
        return self.names(lambda t: self.rebindable(t.name) and test(t))

    # ---- integers -----------------------------------------------------------------------------

    def bounded(self, lo, hi, depth=1):
        """Text of a symbolic integer that lies in lo..hi whatever the data."""
        span, r = hi - lo + 1, self.r
        if span == 1:
            return str(lo)
        for name, known in r.sample(sorted(self.env.ints.items()), len(self.env.ints)):
            if known and known[1] - known[0] < span and self.chance(0.7):
                if self.chance(0.3):
                    self.saw("reverse offset")
                    return f"{hi + known[0]} - {name}"
                shift = lo - known[0] + r.randrange(span - (known[1] - known[0]))
                return f"{name} + {shift}" if shift > 0 else f"{name} - {-shift}" if shift else name
        e = self.int_expr(depth)
        form = r.randrange(4)
        if form == 0:
            self.saw("ternary")
            return f"{r.randint(lo, hi)} if {self.cond(depth)} else {r.randint(lo, hi)}"
        if form == 1:
            self.saw("min/max")
            return f"min(max({e}, {lo}), {hi})"
        if form == 2:
            self.saw("min/max")
            return f"pypto.max(pypto.min({hi}, {e}), {lo})"
        return f"({e}) % {span} + {lo}" if lo else f"({e}) % {span}"

    def offset(self, lo, hi):
        """A literal or a name in lo..hi: slices need a text that cancels."""
        if lo == hi or self.chance(0.25):
            return str(self.r.randint(lo, hi))
        text = self.bounded(lo, hi)
        if text.isidentifier() or text.isdigit():
            return text
        name = self.fresh("o")
        self.put(f"{name} = {text}")
        self.stored(name)
        return name

    def read(self):
        """A scalar read of an integer tensor, with the range of its elements if that is known."""
        self.saw("scalar read")
        tensors = [t for t in self.env.tensors.values() if t.integer and t.name != "res"]
        t = self.r.choice(tensors)
        at = [str(self.r.randrange(d)) for d in t.shape]
        if len(at) == 1 and self.chance(0.4):
            at = [self.bounded(0, t.shape[0] - 1)]
        return f"{t.name}[{', '.join(at)}]"

    def int_expr(self, depth=2):
        r = self.r
        if depth <= 0 or self.chance(0.4):
            form = r.randrange(7)
            if form == 0:
                return str(r.randint(0, 6))
            ragged = self.names(lambda t: t.cls < FULL) if form == 6 else []
            if ragged:
                self.saw("valid extent read")
                return f"{r.choice(ragged).name}.valid_shape[0]"
            if form == 1 and self.env.tensors["x"].dynamic:
                return "x.shape[0]"
            if form <= 2:
                return self.read()
            return r.choice([*self.env.ints, self.read()])
        a, b, form = self.int_expr(depth - 1), self.int_expr(depth - 1), r.randrange(10)
        if form == 0:
            self.saw("ternary")
            return f"({a} if {self.cond(depth - 1)} else {b})"
        if form == 1:
            self.saw("min/max")
            return f"{r.choice(('min', 'max', 'pypto.min', 'pypto.max'))}({a}, {b})"
        if form == 2:
            self.saw("and/or value")
            return f"({a} {r.choice(('and', 'or'))} {b})"
        if form == 3:
            self.saw("floor division")
            return f"(({a} - {b}) {r.choice(('//', '%'))} {r.randint(2, 5)})"
        if form == 4:
            return f"(-{a})"
        if form == 5:
            return f"({a} * {r.randint(2, 3)})"
        return f"({a} {r.choice('+-')} {b})"

    def cond(self, depth=1):
        r = self.r
        form = r.randrange(9)
        a, b = self.int_expr(depth), self.int_expr(depth - 1)
        if form == 0:
            self.saw("chained comparison")
            return (
                f"{r.randint(0, 2)} {r.choice(('<', '<='))} {a} {r.choice(('<', '<=', '!='))} {b}"
            )
        if form == 1 and depth > 0:
            self.saw("and/or condition")
            return f"({self.cond(depth - 1)} {r.choice(('and', 'or'))} {self.cond(depth - 1)})"
        if form == 2 and depth > 0:
            self.saw("not")
            return f"(not {self.cond(depth - 1)})"
        if form == 3:
            return f"({a})" if self.chance(0.5) else self.read()
        if form == 4:
            self.saw("logical operators")
            return f"(({a} > {b}) {r.choice('&|')} ({self.read()} <= {r.randint(0, 4)}))"
        if form == 5 and self.indices():
            self.saw("begin/end")
            return f"pypto.is_loop_{r.choice(('begin', 'end'))}({r.choice(self.indices())})"
        if form == 6:
            return f"pypto.cond({a} == {b})"
        return f"{a} {r.choice(('<', '<=', '>', '>=', '==', '!='))} {b}"

    def indices(self):
        return [n for n in self.live_indices if n in self.env.ints]

    live_indices: tuple = ()

    # ---- tensor expressions -------------------------------------------------------------------

    def window(self, shape, cls):
        """A view or slice of a larger tensor of the same rank, or None."""
        r = self.r
        fits = [
            t
            for t in self.env.tensors.values()
            if not t.integer
            and len(t.shape) == len(shape)
            and all(n <= d for n, d in zip(shape[1:], t.shape[1:], strict=True))
            and (t.shape[0] >= shape[0] or cls < FULL)
            and (t.cls == FULL or cls == ANY)
            and (t.shape[0] > 0 or cls == ANY)
        ]
        if not fits:
            return None
        t = r.choice(fits)
        rows, tail = t.shape[0], shape[1:]
        last = rows - shape[0] if cls == FULL else rows - 1 if cls == SOME else rows + 1
        start = self.offset(0, max(last, 0))
        starts = [start, *(self.offset(0, d - n) for n, d in zip(tail, t.shape[1:], strict=True))]
        if cls < FULL and t.cls == FULL and rows >= shape[0] and self.chance(0.3):
            self.saw("valid_shape")
            start = self.offset(0, rows - shape[0])
            valid = self.bounded(cls, shape[0])
            at = f"[{', '.join([start, *starts[1:]])}], valid_shape={[valid, *tail]}"
            return f"pypto.view({t.name}, {list(shape)}, {at})".replace("'", "")
        if cls < FULL:
            self.saw("overhang")
        if self.chance(0.35):
            self.saw("view")
            made = f"{t.name}.view(" if self.chance(0.3) else f"pypto.view({t.name}, "
            return f"{made}{list(shape)}, [{', '.join(starts)}])"
        self.saw("slice")
        return f"{t.name}[{self.cut(starts, shape, t)}]"

    def cut(self, starts, shape, t):
        parts = []
        for axis, (s, n) in enumerate(zip(starts, shape, strict=True)):
            if s == "0" and n == t.shape[axis] and not (t.dynamic and axis == 0):
                parts.append(":")
            else:
                parts.append(f"{s}:{int(s) + n}" if s.isdigit() else f"{s}:{s} + {n}")
        if len(parts) == 2 and parts[1] == ":" and self.chance(0.3):
            parts.pop()
        return ", ".join(parts)

    def leaf(self, shape, cls):
        same = [
            t.name
            for t in self.env.tensors.values()
            if t.shape == shape and t.cls >= cls and not t.integer and not t.dynamic
        ]
        if same and self.chance(0.6):
            return self.r.choice(same)
        if len(shape) == 1:
            rows = [
                t
                for t in self.env.tensors.values()
                if len(t.shape) == 2 and t.shape[0] and t.shape[1] == shape[0] and t.cls == FULL
                and not t.integer
            ]  # fmt: skip
            if rows and self.chance(0.8):
                self.saw("integer index")
                t = self.r.choice(rows)
                at = self.bounded(0, t.shape[0] - 1)
                return f"{t.name}[{at}]" if self.chance(0.5) else f"{t.name}[{at}, :]"
        found = self.window(shape, cls) if self.chance(0.9) else None
        return found or f"pypto.full({list(shape)}, {self.r.randint(-3, 3)}, {F32})"

    def expr(self, shape, cls=FULL, depth=2):
        """Text of a tensor of this shape whose rows are valid to this degree."""
        if depth <= 0 or self.chance(0.15):
            return self.leaf(shape, cls)
        forms = [self._binary] * 5 + [self._scalar] * 3 + [self._unary, self._select, self._called]
        if len(shape) == 2:
            forms += [self._reduced, self._product, self._joined, self._moved, self._broadcast] * 2
        text = self.r.choice(forms)(shape, cls, depth - 1)
        return text or self.leaf(shape, cls)

    def _binary(self, shape, cls, d):
        a, b = self.expr(shape, cls, d), self.expr(shape, cls, d)
        form = self.r.randrange(6)
        if form == 0:
            return f"pypto.{self.r.choice(('maximum', 'minimum', 'add', 'sub'))}({a}, {b})"
        return f"({a} {self.r.choice('+-')} {b})"

    def _scalar(self, shape, cls, d):
        a, r = self.expr(shape, cls, d), self.r
        form = r.randrange(6)
        if form == 0:
            self.saw("symbolic scalar operand")
            return f"({a} {r.choice('+-*')} (({self.int_expr(1)}) % {r.randint(2, 4)}))"
        if form == 1:
            return f"({r.randint(0, 4)} - {a})"
        if form == 2:
            return f"pypto.mul({a}, {r.choice(('-1', '2', '-2.0'))})"
        return f"({a} {r.choice(('+ 1', '- 2.0', '* -1', '+ 3', '* 2'))})"

    def _unary(self, shape, cls, d):
        a = self.expr(shape, cls, d)
        return self.r.choice(("(-{})", "pypto.abs({})", "pypto.neg({})", "pypto.clone({})")).format(
            a
        )

    def _select(self, shape, cls, d):
        a, b = self.expr(shape, cls, d), self.expr(shape, cls, d)
        if self.chance(0.5):
            self.saw("tensor ternary")
            return f"({a} if {self.cond()} else {b})"
        return (
            f"pypto.where({a} {self.r.choice(('>', '<', '>='))} {b}, {self.leaf(shape, cls)}, {b})"
        )

    def _called(self, shape, cls, d):
        made = [h for h in self.helpers if h[0] == "value"]
        if not made:
            return None
        self.saw("helper value")
        _, name, form = self.r.choice(made)
        return form.format(
            f=name, a=self.expr(shape, cls, d), b=self.expr(shape, cls, d), e=self.int_expr(1),
            k=self.r.randint(0, 2),
        )  # fmt: skip

    def _reduced(self, shape, cls, d):
        r, (rows, cols) = self.r, shape
        f = r.choice(("sum", "amax", "amin", "sum"))
        if rows == 1 and cols > 1:
            a = self.expr((r.choice((2, 3, 4)), cols), SOME if self.chance(0.5) else FULL, d)
            self.saw("reduction")
            dim = r.choice(("0", "dim=0", "-2"))
        elif cols == 1:
            a = self.expr((rows, self.cols), cls, d)
            if self.chance(0.3) and cls < FULL and self.env.tensors["x"].shape[0]:
                at = f"[{self.offset(0, self.env.tensors['x'].shape[0] - 1)}, "
                a = f"pypto.view(x, {[rows, self.cols]}, {at}{self.offset(0, self.cols - 1)}])"
            self.saw("reduction")
            dim = r.choice(("-1", "dim=1", "1"))
        else:
            return None
        keep = r.choice(("keepdim=True", "True")) if "=" not in dim else "keepdim=True"
        method = f in ("sum", "amax") and self.chance(0.3)
        return f"({a}).{f}({dim}, {keep})" if method else f"pypto.{f}({a}, {dim}, {keep})"

    def _product(self, shape, cls, d):
        rows, cols = shape
        k = self.r.choice((2, self.cols))
        self.saw("matmul")
        form = self.r.randrange(4)
        if form == 0:
            a, b = self.expr((rows, k), cls, d), self.expr((cols, k), FULL, d)
            return f"pypto.matmul({a}, {b}, {F32}, b_trans=True)"
        if form == 1:
            a, b = self.expr((k, rows), SOME, d), self.expr((k, cols), FULL, d)
            return f"pypto.matmul({a}, {b}, {F32}, a_trans=True)"
        if form == 2:
            return f"({self.expr((rows, k), FULL, d)} @ {self.expr((k, cols), SOME, d)})"
        return (
            f"pypto.matmul({self.expr((rows, k), cls, d)}, {self.expr((k, cols), FULL, d)}, {F32})"
        )

    def _joined(self, shape, cls, d):
        rows, cols = shape
        if rows > 1 and self.chance(0.6):
            self.saw("concat")
            top = self.r.randrange(1, rows)
            parts = f"[{self.expr((top, cols), FULL, d)}, {self.expr((rows - top, cols), FULL, d)}]"
            return f"pypto.concat({parts}, {self.r.choice(('0', 'dim=0', '-2'))})"
        if cols > 1:
            self.saw("concat")
            half = self.expr((rows, cols // 2), cls, d)
            return f"pypto.concat([{half}, {self.expr((rows, cols - cols // 2), cls, d)}], dim=1)"
        return None

    def _moved(self, shape, cls, d):
        rows, cols = shape
        form = self.r.randrange(4)
        if form == 0:
            self.saw("transpose")
            return f"pypto.transpose({self.expr((cols, rows), FULL, d)}, 0, 1)"
        if form == 1:
            self.saw("fillpad")
            return (
                f'pypto.fillpad({self.expr(shape, ANY, d)}, "constant", {self.r.randint(-2, 2)}.0)'
            )
        if form == 2:
            self.saw("reshape")
            # Padded, since the front end must see that its rows are valid, whatever the offsets.
            whole = f"pypto.fillpad({self.expr((cols, rows), FULL, d)})"
            return f"pypto.reshape({whole}, {[rows, cols]})"
        self.saw("reshape")
        a = self.expr(shape, max(cls, SOME), d)
        return f"pypto.reshape(pypto.unsqueeze({a}, {self.r.choice((0, 1))}), {[rows, cols]})"

    def _broadcast(self, shape, cls, d):
        rows, cols = shape
        thin = (1, cols) if self.chance(0.5) else (rows, 1)
        a = self.expr(thin, FULL if thin[0] == 1 else cls, d)
        if thin != shape and self.chance(0.3):
            self.saw("expand_clone")
            return f"pypto.expand_clone({a}, {list(shape)})"
        self.saw("broadcast")
        return f"({self.expr(shape, cls, d)} {self.r.choice('+-')} {a})"

    def shape(self):
        return (self.r.choice((1, 2, 2, 3, 4)), self.cols)

    # ---- statements ---------------------------------------------------------------------------

    def block(self, count, depth):
        before = len(self.lines)
        for _ in range(count):
            if self.budget > 0:
                self.budget -= 1
                self.statement(depth)
        if len(self.lines) == before:
            self.put("pass")

    def statement(self, depth):
        forms = [
            (self.s_bind, 8), (self.s_rebind, 8), (self.s_write, 10), (self.s_move, 5),
            (self.s_count, 7), (self.s_store, 2), (self.s_alias, 3), (self.s_swap, 4),
            (self.s_mutate, 5), (self.s_several, 3), (self.s_place, 5), (self.s_closure, 4),
            (self.s_list, 1), (self.s_grow, 1), (self.s_constant, 2), (self.s_integers, 1),
            (self.s_over, 2),
        ]  # fmt: skip
        if depth < 3:
            forms += [
                (self.s_if, 9), (self.s_loop, 14 - 3 * depth), (self.s_begin, 3), (self.s_fill, 2),
                (self.s_unroll, 2), (self.s_static, 3), (self.s_while, 1),
            ]  # fmt: skip
        if not self.frames:
            forms += [(self.s_container, 3), (self.s_inplace_reshape, 2), (self.s_chain, 1)]
        else:
            forms.append((self.s_inplace_reshape, 1))
        for _ in range(8):
            kinds, weights = zip(*forms, strict=True)
            if self.r.choices(kinds, weights)[0](depth) is not False:
                return
        self.s_bind(depth)

    def s_bind(self, depth):
        cls = self.r.choice((FULL, FULL, FULL, SOME, ANY))
        shape = self.r.choice((self.shape(), self.shape(), self.shape(), (self.cols,)))
        shape = (shape[0], 1) if len(shape) == 2 and self.chance(0.1) else shape
        cls = FULL if len(shape) == 1 else cls
        text = self.expr(shape, cls)
        name = self.unused("t")
        if isinstance(ast.parse(text).body[0].value, (ast.Name, ast.Attribute, ast.IfExp)) or (
            re.search(r"\[(\d|\"\w\"|:|:, :)\]$", text)
        ):
            text = f"{text} + 0"  # else an alias
        self.put(f"{name} = {text}")
        self.bind(name, shape, cls)

    def s_rebind(self, depth):
        found = self.carriers()
        if not found:
            return False
        t = self.r.choice(found)
        op = self.r.choice(("+", "-", "+"))
        value = self.expr(t.shape, t.cls, 1)
        if t.shape[-1] > 1 and len(t.shape) == 2 and self.chance(0.15):
            self.saw("clamped product")
            self.put(f"{t.name} = pypto.minimum(pypto.maximum({t.name} * {value}, -9.0), 9.0)")
        elif self.chance(0.2):
            self.put(f"{t.name} = {self.expr(t.shape, t.cls, 1)} + 0")
        elif self.chance(0.4):
            self.saw("augmented rebinding")
            self.put(f"{t.name} {op}= {value}")
        else:
            self.put(f"{t.name} = {t.name} {op} {value}")
        self.saw("carried tensor" if any(f.loop for f in self.frames) else "rebinding")
        self.bind(t.name, t.shape, t.cls)

    def target(self):
        """A writable, fully valid tensor of rank 2 with rows, and a window of it."""
        t = self.writable(
            lambda t: len(t.shape) in (2, 3) and t.shape[0] and all(s.cls == FULL for s in t.stores)
        )
        return t

    def s_write(self, depth):
        t = self.target()
        if t is None:
            return False
        r = self.r
        if len(t.shape) == 3:
            value = self.expr(t.shape[1:], FULL, 1)
            self.put(f"{t.name}[{self.bounded(0, t.shape[0] - 1)}] = {value}")
            self.saw("integer index write")
            self.wrote(t)
            return None
        rows = r.randint(1, min(4, t.shape[0]))
        if t.shape[1] == self.cols and self.chance(0.15):
            value = self.expr((self.cols,), FULL, 1)
            at = self.bounded(0, t.shape[0] - 1)
            self.put(f"{t.name}[{at}{r.choice((', :', ''))}] = {value}")
            self.saw("integer index write")
            self.wrote(t)
            return None
        cols = t.shape[1] // 2 if t.shape[1] > 1 and self.chance(0.1) else t.shape[1]
        cls = r.choice((FULL, FULL, SOME, ANY))
        value = self.expr((rows, cols), cls, 2)
        at = self.offset(0, t.shape[0] - rows)
        left = self.offset(0, t.shape[1] - cols)
        form = r.randrange(7)
        spot = self.cut([at, left], (rows, cols), t)
        if not spot.strip(": ,"):
            spot = f"0:{rows}"  # `[:]` would be a move, which takes over what is valid
        window = f"{t.name}[{spot}]"
        if form == 0 and cls == FULL:
            self.saw("augmented slice")
            self.put(f"{window} += {value}")
        elif form == 1:
            self.saw("assemble")
            self.put(f"pypto.assemble({value}, [{at}, {left}], {t.name})")
        elif form == 2 and rows < t.shape[0]:
            self.saw("assemble list")
            other = self.expr((1, cols), cls, 1)
            at2 = self.offset(0, t.shape[0] - 1)
            parts = f"[({value}, [{at}, {left}]), ({other}, [{at2}, {left}])]"
            self.put(f"pypto.assemble({parts}, {t.name})")
        elif form == 3:
            self.saw("open slice")
            self.put(f"{t.name}[{at}:, {left}:] = {value}")
        elif form == 4 and cls == FULL:
            self.saw("atomic add")
            self.put(f"pypto.atomic_add({value}, [{at}, {left}], {t.name})")
        else:
            self.saw("slice write")
            self.put(f"{window} = {value}")
        self.wrote(t)
        return None

    def s_move(self, depth):
        t = self.writable(lambda t: not t.dynamic)
        if t is None:
            return False
        param = t in self.params or all(s.pinned for s in t.stores)
        cls = self.r.choice((FULL, SOME, ANY)) if param else max(s.cls for s in t.stores)
        cls = FULL if len(t.shape) != 2 else cls
        value = self.expr(t.shape, cls, 2)
        form = self.r.randrange(4)
        if form == 0:
            self.saw("move")
            self.put(f"{t.name}.move({value})")
        elif form == 1 and all(s.cls == FULL for s in t.stores) and not t.place:
            self.saw("ellipsis write")
            self.put(f"{t.name}[...] = {value}")
        else:
            self.saw("whole write")
            self.put(f"{t.name}[{', '.join([':'] * self.r.choice((1, len(t.shape))))}] = {value}")
        self.wrote(t)
        return None

    def s_count(self, depth):
        r = self.r
        found = [n for n in self.env.ints if self.rebindable(n)]
        if not found or self.chance(0.25):
            name = self.unused("c")
            self.put(
                f"{name} = {self.int_expr()}" if self.frames else f"{name} = {r.randint(0, 5)}"
            )
            self.bind_int(name)
            return
        name = r.choice(found)
        if any(f.loop for f in self.frames):
            self.saw("carried counter")
        form = r.randrange(5)
        if form == 0 and len(found) > 1:
            other = r.choice([n for n in found if n != name])
            self.saw("swapped counters")
            self.put(f"{name}, {other} = {other}, {name}")
            self.bind_int(other)
        elif form == 1:
            self.put(f"{name} = {self.bounded(0, 5)}")
            self.bind_int(name)
            return
        elif form == 2:
            self.put(f"{name} = ({name} * 3 + {self.int_expr(1)}) % 11")
        else:
            self.put(f"{name} {r.choice(('+=', '-=', '+='))} {self.bounded(0, 3)}")
        self.bind_int(name)

    def s_store(self, depth):
        self.saw("scalar write")
        found = [t for t in self.env.tensors.values() if t.integer and len(t.shape) == 1]
        t = self.r.choice([t for t in found if not t.choice])
        at = self.bounded(0, t.shape[0] - 1)
        if t.name == "res" and self.chance(0.5):
            self.saw("augmented scalar write")
            self.put(f"res[{at}] {self.r.choice(('+=', '-='))} {self.int_expr(1)}")
        else:
            self.put(f"{t.name}[{at}] = {self.bounded(0, 5)}")

    def s_integers(self, depth):
        name = self.unused("q")
        if self.chance(0.5):
            shape = (1, self.cols)
            self.put(f"{name} = pypto.cast({self.expr(shape, FULL, 1)}, {I32})")
        else:
            shape = (4,)
            self.put(f"{name} = pypto.full([4], {self.r.randint(0, 4)}, {I32})")
        self.saw("local integers")
        self.bind(name, shape, integer=True)

    def s_alias(self, depth):
        found = [t for t in self.env.tensors.values() if not t.integer and not t.dynamic]
        t = self.r.choice(found) if found else None
        if t is None:
            return False
        same = [c for c in self.carriers() if c.shape == t.shape and c.cls <= t.cls and c != t]
        old = self.r.choice(same) if same and self.chance(0.6) else None
        name = old.name if old else self.unused("t")
        if old and not all(s.cls >= old.cls for s in t.stores):
            return False
        if not self.bind_alias(name, t):
            return False
        if old:
            kept = self.env.tensors[name]
            self.env.tensors[name] = replace(kept, cls=old.cls)
        self.saw("alias")
        self.put(f"{name} = {t.name}")
        return None

    def s_swap(self, depth):
        for a in self.carriers():
            twins = [b for b in self.carriers() if b.shape == a.shape and b.cls == a.cls and b != a]
            if twins:
                b = self.r.choice(twins)
                break
        else:
            return False
        # What both end up holding must still tell value from value when one is written in place.
        if self.frames and not self.can_freeze(a.stores | b.stores):
            return False
        if self.frames:
            for s in a.stores | b.stores:
                s.frozen = True
        self.saw("swapped tensors")
        if self.chance(0.5):
            self.put(f"{a.name}, {b.name} = {b.name}, {a.name}")
            self.bind(a.name, b.shape, b.cls, stores=b.stores, merged=b.merged)
            self.env.tensors[a.name] = replace(b, name=a.name)
        else:
            self.put(f"{a.name}, {b.name} = {b.name} {self.r.choice('+-')} {a.name}, {a.name}")
            self.bind(a.name, a.shape, a.cls)
        self.bind(b.name, a.shape, a.cls, stores=a.stores, merged=a.merged)
        self.env.tensors[b.name] = replace(a, name=b.name)
        return None

    def s_chain(self, depth):
        shape, one, two = self.shape(), self.unused("t"), self.unused("u")
        self.put(f"{one} = {two} = {self.expr(shape)} + 0")
        self.bind(one, shape)
        self.bind(two, shape, stores=self.env.tensors[one].stores)
        self.saw("alias")

    def s_mutate(self, depth):
        made = [h for h in self.helpers if h[0] in ("rows", "whole", "method")]
        if not made:
            return False
        kind, name, form = self.r.choice(made)
        if kind == "rows":
            t = self.target()
            if t is None or len(t.shape) != 2:
                return False
            rows = self.r.randint(1, min(3, t.shape[0])) if "{v}" in form else 1
            cls = self.r.choice((FULL, ANY)) if "put" in name else FULL
            value = self.expr((rows if "put" in name else 1, t.shape[1]), cls, 1)
            at = self.bounded(0, t.shape[0] - (rows if "put" in name else 1))
            self.put(form.format(f=name, t=t.name, o=at, v=value))
        else:
            t = self.writable(lambda t: not t.dynamic)
            if t is None:
                return False
            self.put(form.format(f=name, t=t.name, e=self.bounded(0, 3)))
        self.saw("mutating helper")
        self.wrote(t)
        return None

    def s_several(self, depth):
        made = [h for h in self.helpers if h[0] in ("pair", "maybe")]
        shape = self.shape()
        found = self.names(lambda t: len(t.shape) == 2 and t.cls == FULL)
        if not made:
            return False
        kind, name, form = self.r.choice(made)
        if kind == "maybe":  # returns its argument itself when its loop makes no trip
            if not found:
                return False
            t = self.r.choice(found)
            if not self.can_freeze(t.stores) or t.integer:
                return False
            new = self.unused("t")
            self.bind_alias(new, t, merged=True)
            self.put(f"{new} = {form.format(f=name, t=t.name, e=self.bounded(0, 3))}")
            self.saw("helper with a loop")
            return None
        a = self.r.choice(found).name if found else None
        shape = self.env.tensors[a].shape if a else shape
        a, b = a or f"({self.expr(shape, FULL, 1)} + 0)", self.expr(shape, FULL, 1)
        one = self.unused("t")
        two = self.unused("u")
        mode = self.r.randint(0, 2)
        text = form.format(f=name, a=a, b=f"({b} + 0)", k=mode)
        self.put(f"{one}, {two} = {text}")
        self.bind(one, shape)
        self.bind(two, shape)
        if "pick" in name and mode == 1 and a in self.env.tensors:
            t = self.env.tensors[a]
            self.bind(two, shape)
            self.env.tensors[two] = replace(t, name=two, place=False)  # the argument itself
        self.saw("several results")
        return None

    def s_container(self, depth):
        found = self.names(lambda t: len(t.shape) == 2)
        if not found:
            return False
        found = self.r.sample(found, min(2, len(found)))
        found.append(self.env.tensors["out"])
        form = self.r.randrange(3)
        name = self.fresh("box")
        if form == 0:
            keys = [f'{name}["{k}"]' for k in "abc"]
            items = ", ".join(f'"{k}": {t.name}' for k, t in zip("abc", found, strict=False))
            self.put(f"{name} = {{{items}}}")
        elif form == 1:
            keys = [f"{name}[{k}]" for k in range(3)]
            self.put(f"{name} = [{', '.join(t.name for t in found)}]")
        else:
            keys = [f"{name}.first", f"{name}.second"]
            found = found[-2:]
            self.put(f"{name} = Pair({', '.join(t.name for t in found)})")
            self.helpers.append(("method", name, "{f}.bump({t}, {e})"))
            self.saw("object")
        for key, t in zip(keys, found, strict=False):
            self.env.tensors[key] = replace(t, name=key, place=True)
        self.saw("container")
        return None

    def s_place(self, depth):
        places = [t for t in self.env.tensors.values() if t.place and self.can_write(t)]
        places = [t for t in places if all(s.cls == FULL for s in t.stores) and not t.dynamic]
        if not places:
            return False
        t = self.r.choice(places)
        self.saw("write through a container")
        if self.chance(0.5):
            self.put(f"{t.name}[:] = {t.name} + {self.expr(t.shape, FULL, 1)}")
        else:
            at = self.offset(0, t.shape[0] - 1)
            value = self.expr((1, *t.shape[1:]), FULL, 1)
            rest = ", :" * (len(t.shape) - 1)
            self.put(f"{t.name}[{at}:{at} + 1{rest}] = {value}")
        self.wrote(t)
        return None

    def s_inplace_reshape(self, depth):
        t = self.writable(lambda t: t in self.params and len(t.shape) == 2 and t.shape[0] >= 4)
        if t is None:
            return False
        rows, cols = t.shape
        name = self.fresh("flat")
        if t.dynamic:
            shape, text = (rows * 2, cols // 2), f"[{t.name}.shape[0] * 2, {cols // 2}]"
        else:
            shape = self.r.choice(
                [(2, rows // 2, cols), (rows * 2, cols // 2), (rows // 2, cols * 2)]
            )
            shape = shape if rows % 2 == 0 else (rows * 2, cols // 2)
            text = str(list(shape))
        self.put(f"{name} = pypto.reshape({t.name}, {text}, inplace=True)")
        self.env.tensors[name] = _Tensor(name, shape, t.stores, dynamic=t.dynamic)
        self.fixed.add(name)
        self.stored(name)
        self.saw("in-place reshape")
        return None

    def s_closure(self, depth):
        ready = [c for c in self.closures if self._closure_fits(c)]
        if ready and self.chance(0.7):
            kind, name, over, shape = self.r.choice(ready)
            self.saw("closure")
            if kind == "adds":
                t = self.env.tensors[over]
                self.put(
                    f"{name}({self.bounded(0, shape[0] - 1)}, {self.expr((1, shape[1]), FULL, 1)})"
                )
                self.wrote(t)
                return None
            shape = shape or self.shape()
            target = self.unused("t")
            self.put(f"{target} = {name}({self.expr(shape, FULL, 1)})")
            self.bind(target, shape)
            return None
        if self.frames:
            return False
        found = self.names(lambda t: len(t.shape) == 2 and t.cls == FULL and self.can_write(t))
        name = self.fresh("f")
        form = self.r.randrange(3)
        if form == 0 and found:
            t = self.r.choice(found)
            self.put(f"def {name}(at, row):")
            self.put(f"    {t.name}[at:at + 1, :] = {t.name}[at:at + 1, :] + row")
            self.closures.append(("adds", name, t.name, t.shape))
        elif form == 1 and self.env.ints:
            over = self.r.choice(list(self.env.ints))
            self.put(f"{name} = lambda t: t + {over} % 4")
            self.closures.append(("int", name, over, None))
        elif found:
            t = self.r.choice(found)
            self.put(f"{name} = lambda t, k={self.r.randint(1, 3)}: t * k - {t.name}")
            self.closures.append(("reads", name, t.name, t.shape))
        else:
            return False
        return None

    def _closure_fits(self, closure):
        kind, _, over, shape = closure
        if kind == "int":
            return over in self.env.ints
        t = self.env.tensors.get(over)
        fits = t is not None and t.shape == shape and all(s.cls == FULL for s in t.stores)
        return fits and (kind == "reads" or self.can_write(t))

    def s_list(self, depth):
        """Lists of tensors that live and die inside one block."""
        r, name, k = self.r, self.fresh("parts"), self.r.randint(2, 3)
        self.saw("list of tensors")
        item = self.expr((1, self.cols), FULL, 1)
        if self.chance(0.5):
            self.put(f"{name} = [{item} * (s + 1) for s in range({k})]")
        else:
            self.put(f"{name} = []")
            self.put(f"for s in range({k}):")
            self.put(f"    {name}.append({item} + s)")
        new = self.unused("t")
        if self.chance(0.5):
            self.put(f"{new} = pypto.concat({name}, {r.choice(('0', 'dim=0'))})")
            self.bind(new, (k, self.cols))
        else:
            self.put(f"{new} = {name}[0] + 0")
            self.put(f"for s, part in enumerate({name}):")
            self.put(f"    {new} = {new} + part * s")
            self.bind(new, (1, self.cols))

    def s_over(self, depth):
        """Static iteration over tensors, which may be written in place through its variable."""
        r = self.r
        found = self.names(lambda t: len(t.shape) == 2 and self.can_write(t))
        found = r.sample(found, min(len(found), 2))
        if len(found) < 2 or found[0].stores & found[1].stores:
            return False
        a, b = (t.name for t in found)
        part = self.fresh("part")
        self.put(
            r.choice(
                (
                    f"for {part} in ({a}, {b}):",
                    f"for {part}, _ in zip([{a}, {b}], range(2)):",
                    f'for {part} in {{"a": {a}, "b": {b}}}.values():',
                )
            )
        )
        self.stored(part)
        self.stored("_")
        if r.random() < 0.5:
            self.saw("write through a loop variable")
            self.put(f"    {part}[:] = {part} {r.choice('+-')} {r.randint(1, 3)}")
            for t in found:
                self.wrote(t)
        else:
            self.saw("static iteration over tensors")
            self.put(f"    out[0:1, :] = out[0:1, :] + pypto.fillpad({part})[0:1, 0:1]")
            if not self.can_write(self.env.tensors["out"]):
                self.lines[-1] = f"    {'    ' * self.indent}pass"
            else:
                self.wrote(self.env.tensors["out"])
        return None

    def s_grow(self, depth):
        """A write beyond the valid rows of a local, which leaves a box."""
        t = self.env.tensors["x"]
        if t.shape[0] < 4:
            return False
        self.saw("growing box")
        name, v = self.unused("t"), self.offset(1, 3)
        self.put(
            f"{name} = pypto.view(x, [4, {self.cols}], [0, 0], valid_shape=[{v}, {self.cols}])"
        )
        row = self.expr((1, self.cols), FULL, 1)
        self.put(f"{name}[{v}:{v} + 1, :] = {row}")
        self.bind(name, (4, self.cols), SOME)
        return None

    def s_constant(self, depth):
        """Compile-time objects rebound to equals, options set, temporaries deleted."""
        form = self.r.randrange(5)
        if form == 3:
            self.saw("assert")
            self.put(f'assert len(out.shape) == 2 and out.shape[1] == {self.cols}, "columns"')
        elif form == 4:
            self.saw("lambda in a block")
            name, new, shape = self.fresh("f"), self.unused("t"), self.shape()
            self.put(
                f"{name} = lambda v, k={self.r.randint(1, 2)}: v * k - ({self.int_expr(1)}) % 4"
            )
            self.put(f"{new} = {name}({self.expr(shape, FULL, 1)})")
            self.stored(name)
            self.bind(new, shape)
        elif form == 0:
            self.saw("options")
            self.put(f"pypto.set_vec_tile_shapes({self.r.choice((4, 8, 16))}, 8, 8, 8)")
        elif form == 1:
            self.saw("equal object")
            name = self.fresh("tag")
            self.put(f'{name} = "{self.r.choice("ab")}"')
            self.stored(name)
            new, shape = self.unused("t"), self.shape()
            a, b = self.expr(shape, FULL, 1), self.expr(shape, FULL, 1)
            self.put(f'{new} = ({a} if {name} == "a" else {b}) + 0')
            self.bind(new, shape)
        else:
            self.saw("del")
            name = self.fresh("gone")
            self.put(f"{name} = {self.expr(self.shape(), FULL, 1)}")
            self.put(f"del {name}")

    # ---- control flow -------------------------------------------------------------------------

    def body(self, frame, count, depth):
        self.frames.append(frame)
        self.indent += 1
        self.block(count, depth + 1)
        self.indent -= 1
        self.frames.pop()

    def s_if(self, depth):
        static = [n for n in self.fixed if n.startswith("k") and n in self.env.ints]
        if static and self.chance(0.5):
            self.saw("static if")
            conds = [
                f"{self.r.choice(static)} {self.r.choice(('==', '>', '<='))} {self.r.randint(0, 2)}"
            ]
        else:
            self.saw("symbolic if")
            conds = [self.cond(2) for _ in range(self.r.choice((1, 1, 1, 2, 3)))]
            if len(conds) > 1:
                self.saw("elif")
        arms = [f"{'elif' if k else 'if'} {c}:" for k, c in enumerate(conds)]
        if self.chance(0.6):
            self.saw("else")
            arms.append("else:")
        self.arms(arms, [lambda: self.block(self.r.randint(1, 3), depth + 1)] * len(arms))

    def arms(self, headers, writers):
        entry, ends, stored = self.env, [], set()
        for header, write in zip(headers, writers, strict=True):
            self.env, frame = entry.copy(), _Frame(False)
            self.put(header)
            self.frames.append(frame)
            self.indent += 1
            write()
            self.indent -= 1
            self.frames.pop()
            ends.append((self.env, frame))
            stored |= frame.stored
        if headers[-1] != "else:":
            ends.append((entry, _Frame(False)))
        after = entry.copy()
        for name in sorted(stored):
            values = [e.tensors.get(name) for e, _ in ends]
            if all(name in e.ints for e, _ in ends):
                after.ints[name] = None
            elif None not in values and len({(v.shape, v.integer) for v in values}) == 1:
                new = name not in entry.tensors
                local = all(
                    s.frozen or f in s.frames
                    for v, (_, f) in zip(values, ends, strict=True)
                    for s in v.stores
                )
                if new and not local:
                    continue
                stores = frozenset().union(*(v.stores for v in values))
                cls = min(v.cls for v in values)
                like = values[0]
                after.tensors[name] = _Tensor(
                    name,
                    like.shape,
                    stores,
                    cls,
                    merged=True,
                    integer=like.integer,
                    choice=not local or any(v.choice for v in values),
                )
            else:
                after.tensors.pop(name, None)
                after.ints.pop(name, None)
        self.env = after

    def bounds(self, depth):
        """Arguments of a loop, the range of its index, and whether it surely makes a trip."""
        r, most = self.r, (5, 4, 3)[depth]
        form = r.randrange(12)
        if form == 0:
            self.saw("zero trips")
            text = r.choice(("0", "2, 2", "3, 1", "0, 2, -1"))
            return text, (0, 3), False
        if form == 1:
            self.saw("negative step")
            hi = r.randint(1, most)
            return f"{hi}, -1, -1", (0, hi), True
        if form == 2:
            self.saw("step")
            step = r.choice((2, 3))
            lo = r.randint(0, 2)
            return f"{lo}, {lo + step * 2}, {step}", (lo, lo + 2 * step - 1), True
        if form == 3:
            self.saw("data bound")
            self.saw("negative step")
            return f"{self.read_steer()}, 0, {r.choice(('-1', '-2'))}", (1, 5), False
        if form in (4, 5, 6):
            self.saw("data bound")
            return self.read_steer(), (0, 4), False
        if form == 7:
            self.saw("data bound")
            return f"{self.read_steer()}, {self.read_steer()}", (0, 4), False
        if form == 8 and self.env.tensors["x"].dynamic:
            self.saw("dynamic bound")
            if self.chance(0.5):
                return "0, x.shape[0], 4", None, False
            return "x.shape[0]", None, False
        if form == 9 and self.live_indices:
            i = r.choice(self.live_indices)
            if self.env.ints.get(i):
                self.saw("triangular")
                hi = min(self.env.ints[i][1], most)
                return (f"min({i}, {most}) + 1", (0, hi), False)
        if form == 10:
            return f"{self.bounded(0, most)}", (0, most - 1), False
        hi = r.randint(1, most)
        lo = r.choice((0, 0, 1))
        return (f"{lo}, {hi + lo}" if lo else str(hi)), (lo, hi + lo - 1), True

    def read_steer(self):
        return f"n[{self.r.randrange(8)}]"

    def options(self):
        if not self.chance(0.25):
            return ""
        self.saw("loop options")
        return self.r.choice((
            ', name="L"', ', idx_name="i"', ", unroll_list=[2, 1]", ", unroll_list=[4]",
            ", submit_before_loop=True",
        ))  # fmt: skip

    def enter(self):
        names = [*self.env.tensors, *self.env.ints]
        frame = _Frame(True, set(names))
        for name in names:
            t = self.env.tensors.get(name)
            if (
                self.rebindable(name)
                and not (t and (t.place or t in self.params))
                and self.chance(0.6)
            ):
                frame.carried.add(name)
        entry, self.env = self.env, self.env.copy()
        for name in sorted(frame.carried):
            t = self.env.tensors.get(name)
            if t is None:
                self.env.ints[name] = None
                continue
            head = _Store(t.cls, tuple(self.frames), head=frame)
            self.env.tensors[name] = _Tensor(
                name, t.shape, t.stores | {head}, t.cls, True, t.integer
            )
        return frame, entry

    def leave(self, frame, entry, runs, static):
        end, after = self.env, entry.copy()
        for name in sorted(frame.stored):
            if name in entry.tensors and name in end.tensors:
                a, b = entry.tensors[name], end.tensors[name]
                choice = a.choice or b.choice or not static
                after.tensors[name] = replace(
                    a, stores=a.stores | b.stores, merged=True, choice=choice
                )
            elif name in entry.ints and name in end.ints:
                after.ints[name] = None
            elif name not in entry.tensors and name not in entry.ints and runs:
                t = end.tensors.get(name)
                if name in end.ints:
                    after.ints[name] = None
                    self.saw("bound in a loop, read after")
                elif t and all(s.frozen or frame in s.frames for s in t.stores):
                    after.tensors[name] = replace(t, merged=True, choice=t.choice or not static)
                    self.saw("bound in a loop, read after")
            elif name in entry.tensors or name in entry.ints:
                after.tensors.pop(name, None)
                after.ints.pop(name, None)
        self.env = after

    def s_loop(self, depth):
        text, known, runs = self.bounds(depth)
        index = "ijm"[depth] if self.chance(0.8) else self.unused("i")
        if index in self.env.ints:
            index = self.unused("i")
        call = "repeat" if self.chance(0.1) else "pypto.loop"
        if call == "repeat":
            self.saw("loop by another name")
        header = f"for {index} in {call}({text}{self.options()}):"
        self.saw(f"loop depth {depth}")
        self._loop(header, index, known, runs, lambda: self.block(self.r.randint(1, 4), depth + 1))

    def _loop(self, header, index, known, runs, write, *, static=False):
        frame, entry = self.enter()
        self.put(header)
        self.fixed.add(index)
        self.stored(index)
        self.env.ints[index] = known
        outer = self.live_indices
        if not static:
            self.live_indices = (*outer, index)
        self.frames.append(frame)
        self.indent += 1
        self.stored(index)
        write()
        self.indent -= 1
        self.frames.pop()
        self.live_indices = outer
        self.leave(frame, entry, runs, static)
        self.fixed.discard(index)

    def s_begin(self, depth):
        """An accumulator that the first trip initialises."""
        self.saw("begin accumulator")
        shape, trips = self.shape(), self.r.randint(1, 4)
        index, name = self.unused("i"), self.fresh("acc")
        inplace = self.chance(0.4)
        if inplace:
            self.put(f"{name} = pypto.tensor({list(shape)}, {F32})")

        def write():
            self.block(self.r.randint(0, 2) or 1, depth + 1)
            value, more = self.expr(shape, FULL, 1), self.expr(shape, FULL, 1)
            left = f"{name}[:]" if inplace else name
            self.put(f"if {self.r.choice((f'pypto.is_loop_begin({index})', f'{index} == 0'))}:")
            self.put(f"    {left} = ({value}) + 0")
            self.put("else:")
            self.put(f"    {left} = {name} + {more}")
            if not inplace:
                self.bind(name, shape, merged=True)
            if self.env.tensors["out"].shape[0] >= shape[0] and self.chance(0.5):
                out = self.env.tensors["out"]
                if self.can_write(out):
                    self.put(f"if pypto.is_loop_end({index}):")
                    self.put(f"    pypto.assemble({name}, [{8 - shape[0]}, 0], out)")
                    self.wrote(out)

        self._loop(f"for {index} in pypto.loop({trips}):", index, (0, trips - 1), True, write)
        if inplace:
            self.bind(name, shape)

    def s_fill(self, depth):
        """A buffer that a loop fills row by row before anything reads it."""
        self.saw("filled buffer")
        rows, index, name = self.r.randint(2, 4), self.unused("i"), self.unused("b")
        self.put(f"{name} = pypto.tensor([{rows}, {self.cols}], {F32})")
        self.reserved.add(name)

        def write():
            self.block(1, depth + 1)
            value = self.expr((1, self.cols), FULL, 1)
            if self.chance(0.5):
                self.put(f"{name}[{index}:{index} + 1, :] = {value}")
            else:
                self.put(f"pypto.assemble({value}, [{rows - 1} - {index}, 0], {name})")

        self._loop(f"for {index} in pypto.loop({rows}):", index, (0, rows - 1), True, write)
        self.reserved.discard(name)
        self.bind(name, (rows, self.cols))

    def s_unroll(self, depth):
        r = self.r
        index, width = self.unused("i"), self.fresh("w")
        total, last = r.choice((("n[2]", 4), ("4", 3), ("7", 6), ("1, 6", 5)))
        factors = r.choice(("[4, 2]", "[2, 1]", "[3]", "[8, 4, 1]"))
        self.saw("loop_unroll")

        def write():
            out = self.env.tensors["out"]
            if self.can_write(out):
                rows = f"{index}:{index} + {width}, :"
                more = r.choice((f"x[{rows}]", f"pypto.full([{width}, {self.cols}], 1.0, {F32})"))
                self.put(f"out[{rows}] = out[{rows}] + {more}")
                self.wrote(out)
            for name in [n for n in self.env.ints if self.rebindable(n)][:1]:
                self.put(f"{name} += {width}")
                self.put(f"if {width} == 2:")
                self.put(f"    {name} += 10")
                self.bind_int(name)
            self.block(r.randint(1, 2), depth + 1)

        header = f"for {index}, {width} in pypto.loop_unroll({total}, unroll_list={factors}):"
        self._loop(header, index, (0, last), False, write)

    def s_static(self, depth):
        """Plain Python loops, which tracing unrolls."""
        self.saw("static loop")
        name = self.fresh("k")
        trips = self.r.randint(1, 3)

        def write():
            if self.chance(0.2):
                self.saw("static break/continue")
                self.put(f"if {name} == {self.r.randint(0, 2)}:")
                self.put(f"    {self.r.choice(('break', 'continue'))}")
            self.block(self.r.randint(1, 3), depth + 1)

        runs = False
        self._loop(f"for {name} in range({trips}):", name, (0, trips - 1), runs, write, static=True)

    def s_while(self, depth):
        self.saw("static while")
        name = self.fresh("k")
        self.put(f"{name} = {self.r.randint(0, 3)}")

        def write():
            self.put(f"{name} -= 1")
            self.block(self.r.randint(1, 2), depth + 1)

        self._loop(f"while {name} > 0:", name, (0, 3), False, write, static=True)

    # ---- helpers, the whole ------------------------------------------------------------------

    def write_helpers(self):
        for name in self.r.sample(sorted(_HELPERS), self.r.randint(3, 6)):
            kind, form, text = _HELPERS[name]
            self.helpers.append((kind, name, form))
            self.defs.append(text.replace("K", str(self.r.randint(1, 3))))
        self.defs.append(_PAIR)

    def publish(self):
        """Everything that is still in scope goes to the outputs."""
        at = 0
        for t in list(self.env.tensors.values()):
            if t.merged and any(s.pinned for s in t.stores):
                self.put(f"{t.name} = {t.name} + 0")  # perhaps `out` itself: a value from here on
        for t in list(self.env.tensors.values()):
            if t.place or t in self.params or t.dynamic:
                continue
            if t.integer:
                self.put(f"n[{at % 8}] = {t.name}[{', '.join('0' for _ in t.shape)}] % 6")
                at += 1
            elif len(t.shape) == 2 and t.shape[1] <= self.cols and t.shape[0] <= 8:
                start = at % (9 - t.shape[0])
                self.put(f"out[{start}:{start + t.shape[0]}, 0:{t.shape[1]}] = {t.name}")
                at += t.shape[0]
            elif t.shape == (self.cols,):
                self.put(f"out[{at % 8}] = {t.name}")
                at += 1
        ints = list(self.env.ints)
        result = "res" if "res" in self.env.tensors else "n"
        for k, name in enumerate(ints[:8]):
            self.put(f"{result}[{k}] = {name}")

    def write(self):
        r = self.r
        self.write_helpers()
        self.budget = r.randint(8, 26)
        self.put("pypto.set_vec_tile_shapes(8, 8, 8, 8)")
        self.put("pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])")
        self.put("repeat = pypto.loop")
        self.put(f"pypto.assemble(pypto.full([1, {self.cols}], 7.0, {F32}), [0, 0], out)")
        x = self.env.tensors["x"]
        if not x.dynamic and self.chance(0.15):
            self.saw("rebound input")
            self.put("x = x * 2")
            self.bind("x", x.shape)
            # A rebound parameter that nothing uses is an error of its own.
            self.put("out[0:1, :] = x[0:1, :]")
        for _ in range(r.randint(1, 3)):
            self.s_bind(0)
        for k in range(r.randint(1, 2)):
            self.put(f"c{k} = {r.randint(0, 4)}")
            self.bind_int(f"c{k}")
        if self.chance(0.3):
            self.s_container(0)
        if self.chance(0.25):
            self.s_closure(0)
        self.s_loop(0)
        while self.budget > 0:
            self.budget -= 1
            self.statement(0)
        self.publish()
        notes = ", ".join(
            f"{t.name}: pypto.Tensor([{self._dims(t)}], {I32 if t.integer else F32})"
            for t in self.params
        )
        head = "import pypto\n\n\n" + "\n\n\n".join(self.defs)
        return f"{head}\n\n\n@pypto.jit\ndef kernel({notes}):\n" + "\n".join(self.lines) + "\n"

    def _dims(self, t):
        sizes = [self.r.choice(("pypto.STATIC", str(n))) for n in t.shape]
        return ", ".join(["pypto.DYNAMIC", *sizes[1:]] if t.dynamic else sizes)

    def arguments(self, seed, call):
        r = np.random.default_rng([seed, call])
        made = []
        for t in self.params:
            shape = list(t.shape)
            if t.name == "x":
                least = 0 if t.shape[0] == 0 else 4
                shape[0] = int(r.integers(least, 9)) if t.dynamic else t.shape[0]
            low, high = (0, 5) if t.integer else (-4, 5)
            made.append(r.integers(low, high, shape).astype(np.int32 if t.integer else np.float32))
        return made
