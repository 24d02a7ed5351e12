"""One mistake somewhere in a random kernel is one message, wherever its result goes.

In: kernels of the random generator, one value of each put through an op that fails.  Out: exactly
that finding, at the place of the mistake, whatever loops, branches, containers and writes the
failed value passes through behind it.
"""

import ast
import random

import pytest
import random_kernels

import pypto

SEEDS = range(1000, 1080)
BATCH = 10
BROKEN = """
def _broken(t):
    if isinstance(t, pypto.Tensor):
        return t.sum(9) if HOW else t.no_such(1)
    return pypto.where(t) if HOW else pypto.no_such_op_at_all(t)
"""


def with_one_mistake(source, seed):
    """The kernel with the value of one of its assignments broken, or None if it has none."""
    tree = ast.parse(source)
    kernel = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "kernel")
    spots = [
        n
        for n in ast.walk(kernel)
        if isinstance(n, (ast.Assign, ast.AugAssign))
        and not isinstance(n.value, (ast.Constant, ast.Tuple, ast.List, ast.Dict))
    ]
    if not spots:
        return None
    spot = random.Random(seed).choice(spots)
    spot.value = ast.Call(ast.Name("_broken", ast.Load()), [spot.value], [])
    text = ast.unparse(ast.fix_missing_locations(tree))
    return "import pypto\n" + BROKEN.replace("HOW", str(bool(seed % 2))) + text


@pytest.fixture(autouse=True)
def rules_of_the_chip_off(monkeypatch):
    monkeypatch.setenv("PYPTO_CHECK", "0")


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BATCH))
def test_one_mistake_is_one_message(first):
    wrong, met = [], 0
    for seed in range(first, first + BATCH):
        source, make_args = random_kernels.build(seed)
        text = with_one_mistake(source, seed)
        if text is None:
            continue
        with random_kernels.loaded(text) as kernel:
            try:
                kernel(*make_args(0))
            except pypto.error.PyptoError as problem:
                met += 1
                places = [f.loc.function for f in problem.findings]
                if places != ["_broken"]:
                    wrong.append(f"seed {seed}: {problem}\n{text}")
    assert not wrong, "\n\n".join(wrong)
    # The mistake may stand where no path of the kernel leads; mostly it does not.
    assert met >= BATCH // 2
