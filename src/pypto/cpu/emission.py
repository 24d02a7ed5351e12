"""What all parts of the emitter share while the code of one graph is written.

The function that is being written, where each tensor lies, the register of each integer, the arena,
and the places at which a run may end in an error.  A tensor is let go behind the node that needs it
last; memory that several tensors lie in is free when all of them are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pypto.cpu.buffers import ALIGN, Arena, Mem, Room, Root, number, row_major
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.integers import Integers
from pypto.cpu.lanes import MEMORY, Lanes
from pypto.cpu.target import Target
from pypto.errors import InternalError, PyptoError
from pypto.ir import faults, sym
from pypto.ir.dtype import DataType
from pypto.ir.graph import Graph, Node, Storage, Value
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape

# Words of the block through which a run tells what went wrong: the place of the fault, its numbers,
# the index of every open loop.
SITE, NUMBERS, TRIPS = 0, 1, 24
# What a run is given there: who runs parallel loops, memory for those that one thread runs, who
# prints, a flag that tells to stop, how much work is left until it is looked at, and what the
# handler of a signal raised.
PARALLEL, OWN_ARENA, PRINTER, STOPPED, LEFT, RAISED, CONTEXT_WORDS = 36, 37, 38, 39, 40, 41, 44
# Nanoseconds of estimated work after which machine code asks whether to go on.
PATIENCE = 20_000_000

# How many trips a loop is taken to have where that is known only at run time.
SOME_TRIPS = 8
# More than any machine has, and far enough from where sizes overflow.
_MOST_BYTES = 1 << 56

Make = Callable[[list[int]], PyptoError]


class Fault(NamedTuple):
    """A place at which a run may end: the node, the error from its numbers, the open loops."""

    node: Node
    make: Make
    numbers: int
    loops: tuple[str, ...]


class Emission:
    """The state of emitting one graph."""

    def __init__(self, graph: Graph, target: Target, builder: type[Lanes]) -> None:
        self.graph = graph
        self.target = target
        self.builder = builder
        self.module = Module()
        self.ints = Integers(self._divided_by_zero)
        self.mems: dict[Value, Mem] = {}
        self._homes: dict[tuple[Storage, Shape], Mem] = {}
        self.arena = Arena()
        self.faults: list[Fault] = []
        self.prints: list[Any] = []  # what each print shows
        self.loops: list[tuple[str, Reg]] = []  # the name and index of every open loop
        self.node: Node | None = None  # the node whose code is being written
        self.cost = 0.0  # about how many nanoseconds one run of the code so far takes
        self._code: Function | None = None
        self._stopped = ""  # the label behind which the function is left before its end

    # --- functions -------------------------------------------------------------------------------

    @property
    def code(self) -> Function:
        assert self._code is not None
        return self._code

    @contextmanager
    def writing(self, function: Function) -> Iterator[None]:
        """Write into another function, with an arena of its own; it returns whether it was stopped.

        Whichever way it ends, what it was given by the process is given back.
        """
        before, arena, stopped = self._code, self.arena, self._stopped
        self._code = self.ints.code = function
        self.arena, self._stopped = Arena(), ""
        yield
        self._end(0)
        if self._stopped:
            function.start(self._stopped)
            self._end(1)
        self._code = self.ints.code = before
        self.arena, self._stopped = arena, stopped

    def _end(self, status: int) -> None:
        for room in self.arena.rooms:
            self._free(room)
        self.code.ret(Reg(str(status), "i32"))

    def stop(self) -> None:
        """Leave the function: the context says why the run ends here."""
        self._stopped = self._stopped or self.module.label()
        self.code.jump(self._stopped)

    @contextmanager
    def loop(self, trips: Reg) -> Iterator[Reg]:
        """A loop over 0..trips-1 that no loop of the kernel stands for."""
        before, self.cost = self.cost, 0.0
        with self.code.loop(i64(0), trips) as index:
            self.ints.open()
            yield index
            self.ints.close()
        self.cost = before + self.cost * (number(trips) or SOME_TRIPS)

    # --- tensors ---------------------------------------------------------------------------------

    def mem(self, value: Value) -> Mem:
        found = self.mems.get(value)
        if found is None:
            raise InternalError(f"the tensor {value} is used before it is made")
        return found

    def bind(self, value: Value, mem: Mem) -> Mem:
        """Say where a tensor lies."""
        self.mems[value] = mem
        if value.storage is not None:
            self._homes[value.storage, value.tensor.shape] = mem
        if mem.root is not None:
            mem.root.uses += 1
        return mem

    def home(self, value: Value) -> Mem | None:
        """Where the storage of a tensor lies already, if another version of it was made."""
        assert value.storage is not None
        return self._homes.get((value.storage, value.tensor.shape))

    def let_go(self, value: Value) -> None:
        """Nothing behind here needs the tensor."""
        mem = self.mems.pop(value, None)
        if mem is not None and mem.root is not None:
            self.release(mem.root)

    def hold(self, mem: Mem) -> None:
        """Keep memory in use whatever lies in it, until `unhold`."""
        if mem.root is not None:
            mem.root.uses += 1

    def unhold(self, mem: Mem) -> None:
        if mem.root is not None:
            self.release(mem.root)

    def release(self, root: Root | Room) -> None:
        root.uses -= 1
        if root.uses == 0:
            self.arena.give_back(root)

    def take(self, dtype: DataType, shape: Sequence[SymInt]) -> Mem:
        """Memory of the kernel's own; the caller binds or releases it."""
        extents = tuple(n for n in shape if isinstance(n, int))
        if len(extents) != len(shape):
            return self._take_room(dtype, shape)
        size = dtype.bytes
        for n in extents:
            size *= n
        root = self.arena.take(size)
        # Also at 0: the register must be one of this function, since its body may be another's.
        pointer = self.code.let("ptr", f"getelementptr i8, ptr %arena, i64 {root.offset}")
        return Mem(pointer, tuple(i64(s) for s in row_major(extents)), dtype, root)

    def _take_room(self, dtype: DataType, shape: Sequence[SymInt]) -> Mem:
        """Memory of a size that is known only at run time.

        A loop that comes here again finds the block of its last trip, and only a larger one is
        asked for anew.
        """
        code, extents = self.code, self.ints.all(shape)
        size, wrong = self._bytes(dtype, extents)
        self.fault(wrong, extents, lambda found: faults.no_memory(dtype, found))
        room = self.arena.room(self._room)
        with code.when(code.compare("ugt", size, code.load("i64", room.size))):
            self._free(room)
            malloc = self.module.declare("malloc", "ptr @(i64)")
            # The optimiser may not know it: a block that is only written would go, and with it the
            # error where there is no memory.
            text = f"call ptr {malloc}(i64 {code.add(size, i64(ALIGN))}) nobuiltin"
            code.store(code.let("ptr", text), room.block)
            code.store(size, room.size)
        block = code.load("ptr", room.block)
        none = code.compare("eq", block, Reg("null", "ptr"))
        self.fault(none, extents, lambda found: faults.no_memory(dtype, found))
        mask = self.module.declare("llvm.ptrmask.p0.i64", "ptr @(ptr, i64)")
        pointer = code.call("ptr", mask, code.at("i8", block, str(ALIGN)), i64(-ALIGN))
        return Mem(pointer, self.strides_of(shape), dtype, room)

    def _room(self) -> Room:
        null = Reg("null", "ptr")
        return Room(self.code.local("ptr", first=null), self.code.local("i64", first=i64(0)))

    def _free(self, room: Room) -> None:
        free = self.module.declare("free", "void @(ptr)")
        self.code.do(f"call void {free}(ptr {self.code.load('ptr', room.block)}) nobuiltin")

    def _bytes(self, dtype: DataType, extents: Sequence[Reg]) -> tuple[Reg, Reg]:
        """The size of a tensor, at least one byte, and whether it has none that can be had."""
        code, pair = self.code, "{ i64, i1 }"
        times = self.module.declare("llvm.smul.with.overflow.i64", f"{pair} @(i64, i64)")
        size, wrong = i64(dtype.bytes), Reg("false", "i1")
        for n in extents:
            both = code.call(pair, times, size, n)
            size = code.let("i64", f"extractvalue {pair} {both}, 0")
            wrong = self.either(wrong, code.let("i1", f"extractvalue {pair} {both}, 1"))
            wrong = self.either(wrong, code.compare("slt", n, i64(0)))
        wrong = self.either(wrong, code.compare("sgt", size, i64(_MOST_BYTES)))
        return code.most(size, i64(1)), wrong

    def drop(self, mem: Mem) -> None:
        """Give back memory that no tensor lies in."""
        assert mem.root is not None and mem.root.uses == 0
        self.arena.give_back(mem.root)

    def make(self, value: Value) -> Mem:
        """Memory for a tensor that is made here."""
        type = value.tensor
        return self.bind(value, self.take(type.dtype, type.shape))

    def valid(self, value: Value) -> tuple[Reg, ...]:
        """The valid extents of a tensor."""
        return self.ints.all(value.tensor.valid)

    def strides_of(self, shape: Sequence[SymInt]) -> tuple[Reg, ...]:
        """Strides of row-major memory whose extents may be known only at run time."""
        strides = [i64(1)] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = self.code.mul(strides[axis + 1], self.ints.of(shape[axis + 1]))
        return tuple(strides)

    def window(self, mem: Mem, offsets: Sequence[Reg]) -> Mem:
        """The tensor from some offset on."""
        at = i64(0)
        for offset, stride in zip(offsets, mem.strides, strict=True):
            at = self.code.add(at, self.code.mul(offset, stride))
        return self.moved(mem, at)

    def moved(self, mem: Mem, offset: Reg) -> Mem:
        """The same memory from another element on."""
        return mem._replace(pointer=self.code.at(MEMORY[mem.dtype], mem.pointer, offset))

    def poll(self, cost: float) -> None:
        """Ask whether to go on, once in a while; `cost` is the work since the last time."""
        code = self.code
        place = code.at("i64", "%context", str(LEFT))
        left = code.sub(code.load("i64", place), i64(1 + int(cost)))
        code.store(left, place)
        ask, stop, go_on = (code.module.label() for _ in range(3))
        code.branch(code.compare("slt", left, i64(0)), ask, go_on)
        code.start(ask)
        name = self.module.once("poll", lambda name: _poll(self.module, name))
        answer = code.call("i32", f"@{name}", Reg("%context", "ptr"))
        code.branch(code.compare("eq", answer, Reg("0", "i32")), go_on, stop)
        code.start(stop)
        code.ret(Reg("1", "i32"))
        code.start(go_on)

    # --- faults ----------------------------------------------------------------------------------

    def fault(self, wrong: Reg, numbers: Sequence[Reg], make: Make) -> None:
        """End the run where `wrong` holds, with the error that `make` gives for the numbers."""
        if wrong == "false":
            return
        code = self.code
        assert self.node is not None
        site = len(self.faults)
        told = self.loops[: PARALLEL - TRIPS]  # as many as there is room for
        names = tuple(name for name, _ in told)
        self.faults.append(Fault(self.node, make, len(numbers), names))
        bad, good = code.module.label(), code.module.label()
        code.branch(wrong, bad, good)
        code.start(bad)
        words = [(SITE, i64(site + 1))]
        words += [(NUMBERS + k, n) for k, n in enumerate(numbers)]
        words += [(TRIPS + k, index) for k, (_, index) in enumerate(told)]
        for word, n in words:
            code.store(n, code.at("i64", "%context", str(word)))
        self.stop()
        code.start(good)

    def check_given(self, name: str, asked: Sequence[SymInt], limits: Sequence[SymInt]) -> None:
        """Refuse given valid extents beyond their limits, where that is not known to hold."""
        pairs = list(zip(asked, limits, strict=True))
        if all(
            sym.expr(n).bounds()[0] >= 0 and sym.sub(limit, n).bounds()[0] >= 0
            for n, limit in pairs
        ):
            return
        wrong = Reg("false", "i1")
        for n, limit in pairs:
            wrong = self.either(wrong, self.outside(self.ints.of(n), self.ints.of(limit)))
        count = len(pairs)

        def make(numbers: list[int]) -> PyptoError:
            return caught(lambda: faults.check_valid(name, numbers[:count], numbers[count:]))

        self.fault(wrong, (*self.ints.all(asked), *self.ints.all(limits)), make)

    def outside(self, n: Reg, limit: Reg) -> Reg:
        """Whether `n` is not within 0..limit."""
        return self.code.compare("ugt", n, self.code.most(limit, i64(0)))

    def either(self, a: Reg, b: Reg) -> Reg:
        return b if a == "false" else self.code.let("i1", f"or i1 {a}, {b}")

    def _divided_by_zero(self, wrong: Reg) -> None:
        self.fault(wrong, (), lambda numbers: faults.division_by_zero())


def _poll(module: Module, name: str) -> Function:
    """`i32 poll(ptr context)`: 1 where the run is to stop.

    A loop may have ended elsewhere.  In the main thread the handlers of signals run, such as that
    of Ctrl-C; what one raises is kept, since no exception may leave through machine code.
    """
    context = Reg("%context", "ptr")
    code = Function(module, name, [context], result="i32", attributes="nounwind noinline cold")
    code.store(i64(PATIENCE), code.at("i64", context, str(LEFT)))
    ensure = module.declare("PyGILState_Ensure", "i32 @()")
    check = module.declare("PyErr_CheckSignals", "i32 @()")
    fetch = module.declare("PyErr_Fetch", "void @(ptr, ptr, ptr)")
    release = module.declare("PyGILState_Release", "void @(i32)")
    held = code.call("i32", ensure)
    raised = code.compare("ne", code.call("i32", check), Reg("0", "i32"))
    with code.when(raised):
        code.call("void", fetch, *(code.at("i64", context, str(RAISED + k)) for k in range(3)))
    code.call("void", release, held)
    flag = code.load("ptr", code.at("i64", context, str(STOPPED)))
    stopped = code.compare("ne", code.load("i64", flag), i64(0))
    either = code.let("i1", f"or i1 {raised}, {stopped}")
    code.ret(code.let("i32", f"zext i1 {either} to i32"))
    return code


def caught(check: Callable[[], None]) -> PyptoError:
    """The error of a check that the numbers of a fault cannot pass."""
    try:
        check()
    except PyptoError as found:
        return found
    raise InternalError("a run ended in a fault whose numbers are in order")
