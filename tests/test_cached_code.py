"""Kernels whose machine code comes from an earlier run: the same values, the same errors.

Each process of a test runs kernels as machine code and counts how often it emits and compiles.
"""

import ctypes
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import pypto
from pypto import loading
from pypto.cpu import cache, keys, launch, load, target
from pypto.errors import InternalError, PyptoError
from pypto.ir.parse import parse

HOST = target.host()
F32 = pypto.Tensor([], pypto.DT_FP32)


@pytest.fixture(autouse=True)
def machine_code(tmp_path, monkeypatch):
    """Kernels run as machine code; the source counts as settled, new as the files may be."""
    monkeypatch.setenv("PYPTO_INTERPRET", "0")
    monkeypatch.setenv("PYPTO_SANITIZE", "0")
    monkeypatch.setenv("PYPTO_CHECK", "0")
    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "BEGAN", float("inf"))
    keys.source_digest.cache_clear()
    yield tmp_path / "cache"
    keys.source_digest.cache_clear()


@pytest.fixture
def work(monkeypatch):
    """What this process does for a kernel: the names of its steps, as they happen."""
    done = []

    def counted(name):
        function = getattr(launch, name)

        def call(*args):
            done.append(name)
            return function(*args)

        monkeypatch.setattr(launch, name, call)

    counted("emit")
    counted("to_object")
    return done


# --- from process to process ---------------------------------------------------------------------

PROGRAM = """
import json, sys
import numpy as np
import pypto
from pypto import loading
from pypto.cpu import launch

done = []

def counted(name):
    function = getattr(launch, name)
    def call(*args):
        done.append(name)
        return function(*args)
    setattr(launch, name, call)

counted("emit")
counted("to_object")
loading.BEGAN = float(sys.argv[1])

@pypto.jit
def kernel(a: pypto.Tensor([pypto.DYNAMIC, 40], pypto.DT_FP32), out: pypto.Tensor()):
    pypto.set_vec_tile_shapes(16, 64)
    for i in pypto.loop(0, a.shape[0], 8):
        n = pypto.min(a.shape[0] - i, 8)
        t = pypto.view(a, [8, 40], [i, 0], valid_shape=[n, 40])
        pypto.assemble(pypto.exp(t) * 2.0 + pypto.sum(t, 1, keepdim=True), [i, 0], out)

a = np.linspace(-2, 2, 20 * 40, dtype=np.float32).reshape(20, 40)
out = np.zeros_like(a)
kernel(a, out)
wanted = np.exp(a) * 2 + a.sum(1, keepdims=True)
print(json.dumps([done, bool(np.allclose(out, wanted, rtol=1e-5, atol=1e-5))]))
"""
SETTLED, FRESH = "inf", "0"


def run(tmp_path, began=SETTLED, **env):
    """The steps of a process of its own; the values of its kernel are right."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, path, began], env={**os.environ, **env}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    steps, right = json.loads(done.stdout)
    assert right
    return steps


def test_a_second_process_neither_emits_nor_compiles(tmp_path):
    assert run(tmp_path) == ["emit", "to_object"]
    assert run(tmp_path) == []


def test_source_that_has_just_changed_is_emitted_again_but_not_compiled(tmp_path):
    assert run(tmp_path, FRESH) == ["emit", "to_object"]
    assert run(tmp_path, FRESH) == ["emit"]
    assert run(tmp_path) == ["emit"]
    assert run(tmp_path) == []


def test_without_a_cache_every_process_compiles(tmp_path, machine_code):
    for env in ({"PYPTO_CACHE_DIR": "off"}, {"PYPTO_CACHE_MB": "0"}):
        for _ in range(2):
            assert run(tmp_path, **env) == ["emit", "to_object"]
    assert not machine_code.exists()


def test_lost_and_damaged_entries_cost_a_compile(tmp_path, machine_code):
    run(tmp_path)
    recipe, code = sorted(machine_code.iterdir(), key=lambda path: path.stat().st_size)
    code.write_bytes(code.read_bytes()[:-8] + bytes(8))
    assert run(tmp_path) == ["emit", "to_object"]
    code.unlink()
    assert run(tmp_path) == ["emit", "to_object"]
    recipe.write_bytes(b"")
    assert run(tmp_path) == ["emit"]
    assert run(tmp_path) == []


def test_a_limit_on_the_size_of_files_costs_only_the_cache(tmp_path, machine_code):
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
    path = tmp_path / "limited.py"
    path.write_text(limited + PROGRAM)
    done = subprocess.run([sys.executable, path, SETTLED], capture_output=True, text=True)
    assert (done.stderr, json.loads(done.stdout)[1]) == ("", True)
    # The recipe is small enough, the code is not.
    assert [path.stat().st_size < 1024 for path in machine_code.iterdir()] == [True]
    assert run(tmp_path) == ["emit", "to_object"]


TEXT = """
graph g:
  param x : fp32[4, 8]
  param out : fp32[4, 8]
  %0 = mul(x, 2.0) : fp32[4, 8]   # k.py:3
  %1 = assemble(%0, out, offsets=(0, 0)) : fp32[4, 8] in out
"""


# --- errors of a run -----------------------------------------------------------------------------

FAULTY = """
graph faulty:
  param i : int32[2]
  param x : fp32[4]
  param out : fp32[4]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(1,)) : int
  %2 = loop(0, 2, 1) : fp32[4] in out
    index %3 : int 0..1
    carry %4 = out : fp32[4] in out
    %5 = view(x, shape=(4,), offsets=(%0 // %1,), given=(%3 + 3,)) : fp32[4] valid [%3 + 3] # k.py:7
    %6 = assemble(%5, %4, offsets=(0,)) : fp32[4] in out
    yield %6
"""


def told(program, *numbers):
    arrays = [np.array(numbers, np.int32), np.ones(4, np.float32), np.zeros(4, np.float32)]
    try:
        program.run(arrays)
    except PyptoError as problem:
        return str(problem), type(problem).__name__
    return arrays[2].tolist()


def test_code_from_the_cache_tells_its_faults(work):
    made = launch.NativeProgram(parse(FAULTY))
    kept = launch.NativeProgram(parse(FAULTY))
    assert work == ["emit", "to_object"]
    wanted = [told(made, *numbers) for numbers in ((0, 1), (5, 0), (-1, 1), (1, 1))]
    assert wanted[0] == [1, 1, 1, 1]
    assert "Division or Mod by zero." in wanted[1][0]
    assert "offset -1" in wanted[2][0]
    assert "in iteration %3 = 1)" in wanted[3][0]
    work.clear()
    assert [told(kept, *numbers) for numbers in ((0, 1), (5, 0), (-1, 1), (1, 1))] == wanted
    # Only to find out what the faults are, and only once.
    assert work == ["emit"]


def test_code_from_the_cache_prints(work, capsys):
    def make():
        @pypto.jit
        def printing(a: F32, out: F32):
            pypto.set_vec_tile_shapes(16, 32)
            for i in pypto.loop(2):
                pypto.pass_verify_print("trip", i, "of", a)
            out[:] = a

        return printing

    a, out = np.full((1, 2), 1.5, np.float32), np.zeros((1, 2), np.float32)
    make()(a, out)
    wanted = capsys.readouterr().out
    assert "trip 0 of" in wanted
    assert "trip 1 of" in wanted
    work.clear()
    kept = make()
    kept(a, out)
    assert (capsys.readouterr().out, work) == (wanted, ["emit"])
    kept(a, out)
    assert (capsys.readouterr().out, work) == (wanted, ["emit"])


def test_a_fault_is_not_told_from_other_code():
    graph = parse(FAULTY)
    launch.NativeProgram(graph)
    other = cache.key_of("other")
    recipe = launch._Recipe.of_bytes(cache.load(keys.of_graph(graph, HOST)))
    cache.store(other, cache.load(recipe.module))
    cache.store(keys.of_graph(graph, HOST), recipe._replace(module=other).to_bytes())
    program = launch.NativeProgram(graph)
    assert told(program, 0, 1) == [1, 1, 1, 1]
    with pytest.raises(InternalError, match="pypto cache clear"):
        program.run([np.array([5, 0], np.int32), *np.ones((2, 4), np.float32)])


# --- code in memory ------------------------------------------------------------------------------


def constant(number):
    """The machine code of a function that gives a number."""
    return load.to_object(f"define i32 @kernel() {{ ret i32 {number} }}", HOST)


def value(code):
    return ctypes.CFUNCTYPE(ctypes.c_int32)(code.address("kernel"))()


def test_libraries_of_one_name_live_side_by_side():
    codes = [load.Code(constant(n), ["kernel"]) for n in range(70)]
    assert [value(code) for code in codes] == list(range(70))
    del codes[1::2]
    assert [value(code) for code in codes] == list(range(0, 70, 2))


def test_threads_compile_at_the_same_time(machine_code):
    results = [None] * 4
    start = threading.Barrier(4)

    def work(place):
        start.wait()
        found = []
        for n in range(6):
            text = TEXT.replace("2.0", f"{n}.0" if place % 2 else f"{place}{n}.0")
            program = launch.NativeProgram(parse(text))
            x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
            program.run([x, out])
            found.append(float(out[3, 7]) if (out == out[0, 0]).all() else None)
        results[place] = found

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    odd = [float(n) for n in range(6)]
    assert results == [odd, odd, [20 + n for n in odd], odd]


LEAK = """
import sys
sys.path.insert(0, sys.argv[1])
import test_cached_code as here
from pypto.cpu import load

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

code = here.constant(7)
for n in range(1200):
    if n == 200:
        before = resident()
    if n % 4 == 0:
        code = here.constant(n)
    assert here.value(load.Code(code, ["kernel"])) == n - n % 4
print(resident() - before)
"""


def test_code_goes_with_its_program():
    done = subprocess.run(
        [sys.executable, "-c", LEAK, os.path.dirname(__file__)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # A linker that all share would keep 9 MB, the passes of all compiles 12 MB.
    assert int(done.stdout) < 3_000_000


FORK = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import test_cached_code as here
from pypto.cpu import launch

def run(program, wanted):
    x, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    program.run([x, out])
    assert (out == wanted).all()

def made(number):
    return launch.NativeProgram(here.parse(here.TEXT.replace("2.0", f"{number}.0")))

shared, busy = made(3), True
run(shared, 3)

def compile_on():
    number = 1000
    while busy:
        number += 1
        here.constant(number)

threads = [threading.Thread(target=compile_on) for _ in range(2)]
for thread in threads:
    thread.start()
failed = 0
for number in range(10, 30):
    child = os.fork()
    if child == 0:
        run(shared, 3)
        run(made(number), number)
        run(made(3), 3)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
busy = False
for thread in threads:
    thread.join()
run(shared, 3)
run(made(10), 10)
print("failed", failed)
"""


def test_a_child_of_a_fork_compiles_and_runs():
    done = subprocess.run(
        [sys.executable, "-c", FORK, os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "failed 0\n")


# --- looking inside ------------------------------------------------------------------------------


def test_the_ir_can_be_seen_of_kept_code_too(tmp_path, monkeypatch, capfd):
    def make():
        @pypto.jit
        def doubled(a: F32, out: F32):
            pypto.set_vec_tile_shapes(16, 32)
            out[:] = a * 2.0

        return doubled

    a, out = np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32)
    make()(a, out)
    monkeypatch.setenv("PYPTO_DUMP", str(tmp_path / "dump"))
    monkeypatch.setenv("PYPTO_DEBUG", "4")
    kernel = make()
    kernel(a, out)
    wanted = launch.NativeProgram(kernel.function).text
    assert "define i32 @kernel(ptr %context" in wanted
    assert (tmp_path / "dump" / "doubled.ll").read_text() == wanted
    assert wanted in capfd.readouterr().err
    monkeypatch.setenv("PYPTO_INTERPRET", "1")
    monkeypatch.setenv("PYPTO_DUMP", str(tmp_path / "steps"))
    make()(a, out)
    assert sorted(path.name for path in (tmp_path / "steps").iterdir()) == [
        "doubled.rewrite.txt", "doubled.trace.txt", "doubled.verify.txt",
    ]  # fmt: skip
