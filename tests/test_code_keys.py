"""What the keys of machine code stand on: all that the code of a graph follows from.

A key changes with each part of it.  The text of a graph decides what is emitted for it, in every
process: graphs that are read back from their text, and the same kernels elsewhere, give equal code.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import warnings

import llvmlite
import llvmlite.binding as llvm
import numpy as np
import pytest
import random_kernels

from pypto import compile as road
from pypto import loading
from pypto.cpu import cache, keys, launch, load, target
from pypto.cpu.emit import emit
from pypto.gym import kernels
from pypto.ir.parse import parse
from pypto.ir.text import to_text

HOST = target.host()


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """The source counts as settled, new as the files may be."""
    monkeypatch.setenv("PYPTO_CHECK", "0")
    monkeypatch.setattr(loading, "BEGAN", float("inf"))
    keys.source_digest.cache_clear()
    yield
    keys.source_digest.cache_clear()


# --- keys ----------------------------------------------------------------------------------------

TEXT = """
graph g:
  param x : fp32[4, 8]
  param out : fp32[4, 8]
  %0 = mul(x, 2.0) : fp32[4, 8]   # k.py:3
  %1 = assemble(%0, out, offsets=(0, 0)) : fp32[4, 8] in out
"""


def both(graph=None, machine=HOST):
    return keys.of_module("text", machine), keys.of_graph(graph or parse(TEXT), machine)


def test_keys_change_with_what_makes_the_code(monkeypatch):
    first = both()
    assert first == both()
    changes = [
        (llvmlite, "__version__", "0.0.1"),
        (llvm, "llvm_version_info", (1, 2, 3)),
        (keys, "PASSES", {**load.PASSES, "loop_unrolling": True}),
        (keys, "MACHINE", {**target.MACHINE, "opt": 2}),
        (cache, "MAGIC", b"\x89pypto\x00\x02"),
    ]
    seen = [first]
    for place, name, other in changes:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, other)
            seen.append(both())
    for field in ("triple", "cpu", "features"):
        seen.append(both(machine=HOST._replace(**{field: "other"})))
    assert len({key for pair in seen for key in pair}) == 2 * len(seen)
    assert both() == first


def test_keys_change_with_the_kernel():
    assert keys.of_module("text", HOST) != keys.of_module("text ", HOST)
    texts = [TEXT, TEXT.replace("2.0", "3.0"), TEXT.replace("mul", "add"), TEXT.replace("8", "16")]
    assert len({keys.of_graph(parse(text), HOST) for text in texts}) == 4
    # Where a node stands in the user's source is no part of its code.
    moved = parse(TEXT.replace("k.py:3", "other.py:30"))
    assert keys.of_graph(moved, HOST) == keys.of_graph(parse(TEXT), HOST)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Some source, in place of the package's own."""
    for room in ("cpu", "ir", "ops"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "module.py").write_text(f"# {room}")
    monkeypatch.setattr(keys, "__file__", str(tmp_path / "cpu" / "keys.py"))
    return tmp_path


def test_keys_of_graphs_change_with_the_source(package):
    digest = keys.source_digest.__wrapped__
    first = digest()
    seen = {first, keys.of_graph(parse(TEXT), HOST)}
    for room in ("cpu", "ir", "ops"):
        (package / room / "module.py").write_text(f"# {room}.")
        seen.add(digest())
    (package / "ir" / "more.py").write_text("")
    seen.add(digest())
    assert len(seen) == 6
    assert None not in seen
    before = digest()
    (package / "ir" / "notes.txt").write_text("")
    assert digest() == before


def test_source_that_may_not_be_what_is_loaded_gives_no_key(package, monkeypatch):
    digest = keys.source_digest.__wrapped__
    changed = (package / "cpu" / "module.py").stat().st_ctime
    monkeypatch.setattr(loading, "BEGAN", changed + 9)
    assert (digest(), keys.of_graph(parse(TEXT), HOST)) == (None, None)
    monkeypatch.setattr(loading, "BEGAN", changed + 11)
    assert digest() is not None
    for room in ("cpu", "ir", "ops"):
        (package / room / "module.py").unlink()
    assert digest() is None


def test_the_emitter_reads_no_switch():
    # One that changes the code would have to be part of the key of a graph.
    folder = os.path.dirname(launch.__file__)
    readers = [
        name
        for name in sorted(os.listdir(folder))
        if name.endswith(".py") and "knobs" in open(os.path.join(folder, name)).read()
    ]
    assert readers == ["cache.py", "pool.py"]


# --- the text of a graph decides its code --------------------------------------------------------


def code_of(graph):
    emitted = emit(graph, HOST)
    faults = [(fault.numbers, len(fault.loops), fault.node.op.name) for fault in emitted.faults]
    return emitted.module.text(), emitted.arena, emitted.body_arena, faults, emitted.prints


@contextlib.contextmanager
def gathered():
    """The graphs of the kernels that are called inside, which do nothing."""
    found = []

    class Idle:
        text = ""

        def run(self, arrays):
            pass

    def keep(compiled):
        found.append(compiled.text)
        compiled.program = Idle()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(road, "STAGES", [*road.STAGES[:-1], ("prepare", keep)])
        patch.setenv("PYPTO_PORTABLE", "0")
        yield found


def graphs(first, last):
    """The graphs of random kernels."""
    with gathered() as found:
        for seed in range(first, last):
            source, make_args = random_kernels.build(seed)
            with random_kernels.loaded(source) as kernel, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kernel(*make_args(0))
    return found


def emitted(found):
    """Graphs with their code, as far as there is machine code for them."""
    pairs = []
    for graph in found:
        with contextlib.suppress(NotImplementedError):
            pairs.append((graph, code_of(graph)))
    return pairs


def same_code_from_text(found):
    for graph, code in emitted(found):
        text = to_text(graph, places=False)
        assert code_of(graph) == code
        assert code_of(parse(text)) == code, text


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_graphs_of_equal_text_have_equal_code(first):
    found = graphs(first, first + 10)
    assert len(emitted(found)) >= 7
    same_code_from_text(found)


def test_graphs_of_the_gym_of_equal_text_have_equal_code():
    with gathered() as found:
        for kernel in kernels().values():
            case = next(case for case in kernel.cases if case.size == "quick")
            case.run(**case.inputs(0))
    assert len(emitted(found)) >= 3
    same_code_from_text(found)


NANS = """
graph g:
  param out : fp32[8]
  %0 = full(size=(8,), fill_value=fp32(float('nan')), dtype=DT_FP32) : fp32[8]
  %1 = assemble(%0, out, offsets=(0,)) : fp32[8] in out
"""


def test_nans_that_the_text_does_not_tell_apart_give_one_code():
    graph, other = parse(NANS), parse(NANS)
    node = other.body.nodes[0]
    name = next(name for name, item in node.attrs.items() if isinstance(item, np.generic))
    node.attrs[name] = np.uint32(0xFFC00001).view(np.float32)
    assert to_text(graph) == to_text(other)
    assert code_of(graph) == code_of(other)


CODES = """
import hashlib, os, sys
sys.path.insert(0, os.path.join(sys.argv[1]))
import test_code_keys as here
padding = [object() for _ in range(int(sys.argv[2]))]
for graph, code in here.emitted(here.graphs(0, 6)):
    print(hashlib.sha256(code[0].encode()).hexdigest())
"""


def test_every_process_emits_the_same_code():
    outputs = []
    for number in ("1", "2000"):
        done = subprocess.run(
            [sys.executable, "-c", CODES, os.path.dirname(__file__), number],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.split())
    here = [hashlib.sha256(code[0].encode()).hexdigest() for _, code in emitted(graphs(0, 6))]
    assert len(here) >= 4
    assert outputs == [here, here]
