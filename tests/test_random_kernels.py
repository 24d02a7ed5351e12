"""Five hundred random kernels: the package must leave in every argument what plain Python leaves.

In: the seeds 0 to 499, interpreted, and 500 to 999 as machine code. Out: for each kernel two calls,
with other data and other dynamic extents, compared element by element, inputs and untouched
elements included. A failure prints the kernel; `python -m tests.random_kernels --seed N --count 1
--minimise` makes it small.
"""

import ast
import collections

import numpy as np
import pytest
import random_kernels

SEEDS = range(500)
BATCH = 20
# Every construct that the grammar writes; each must be in at least five of the kernels.
CONSTRUCTS = """
    alias · and/or condition · and/or value · assemble · assemble list · assert · atomic add ·
    augmented rebinding · augmented scalar write · augmented slice · begin accumulator ·
    begin/end · bound in a loop, read after · broadcast · carried counter · carried tensor ·
    chained comparison · clamped product · closure · concat · container · data bound · del ·
    dynamic bound · elif · ellipsis write · else · equal object · expand_clone · filled buffer ·
    fillpad · floor division · growing box · helper value · helper with a loop ·
    in-place reshape · integer index · integer index write · lambda in a block · list of tensors ·
    local integers · logical operators · loop by another name · loop depth 0 · loop depth 1 ·
    loop depth 2 · loop options · loop_unroll · matmul · min/max · move · mutating helper ·
    negative step · not · object · open slice · options · overhang · rebinding · rebound input ·
    reduction · reshape · reverse offset · scalar read · scalar write · several results · slice ·
    slice write · static break/continue · static if · static iteration over tensors ·
    static loop · static while · step · swapped counters · swapped tensors · symbolic if ·
    symbolic scalar operand · tensor ternary · ternary · transpose · triangular ·
    valid extent read · valid_shape · view · whole write · write through a container ·
    write through a loop variable · zero trips
"""


@pytest.fixture(autouse=True)
def rules_of_the_chip_off(monkeypatch):
    monkeypatch.setenv("PYPTO_CHECK", "0")


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BATCH))
def test_kernels_agree_with_plain_python(first):
    _compare(first)


@pytest.mark.parametrize("first", range(SEEDS.stop, 2 * SEEDS.stop, BATCH))
def test_machine_code_agrees_with_plain_python(first, monkeypatch):
    monkeypatch.setenv("PYPTO_INTERPRET", "0")
    monkeypatch.setenv("PYPTO_SANITIZE", "0")
    _compare(first)


def _compare(first):
    failures = []
    for seed in range(first, first + BATCH):
        source, make_args = random_kernels.build(seed)
        problem = random_kernels.check(source, make_args)
        if problem:
            failures.append(f"seed {seed}: {problem}\n{source}")
    assert not failures, f"{len(failures)} of {BATCH} kernels differ\n\n" + "\n\n".join(failures)


def test_every_construct_is_in_at_least_five_of_the_kernels():
    counts = collections.Counter(c for seed in SEEDS for c in random_kernels.features(seed))
    wanted = " ".join(CONSTRUCTS.split()).split(" · ")
    assert sorted(counts) == sorted(wanted)
    assert {c: n for c, n in counts.items() if n < 5} == {}


def test_a_seed_always_gives_the_same_kernel_and_arguments():
    one, two = random_kernels.build(7), random_kernels.build(7)
    assert one.source == two.source
    for call in (0, 1):
        for a, b in zip(one.make_args(call), two.make_args(call), strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)
    assert any(
        a.shape != b.shape or not np.array_equal(a, b)
        for a, b in zip(one.make_args(0), one.make_args(1), strict=True)
    )


def test_minimise_keeps_only_what_fails(monkeypatch):
    """The failure is made up: whatever matrix product a kernel holds counts as wrong."""
    seed = next(s for s in SEEDS if "matmul" in random_kernels.features(s))
    source, make_args = random_kernels.build(seed)

    def fails(source, make_args):
        return "call 0: wrong" if "matmul(" in source or " @ " in source else None

    monkeypatch.setattr(random_kernels, "check", fails)
    small = random_kernels.minimise(source, make_args)
    assert fails(small, make_args)
    kernel = ast.parse(small).body[-1]
    assert kernel.name == "kernel"
    # One product is enough, with at most the offsets that it needs in front of it.
    assert sum(text in small for text in ("matmul(", " @ ")) == 1
    assert len(kernel.body) <= 4 < len(ast.parse(source).body[-1].body), small
