"""Random kernels, each with one meaning that plain Python gives it, against the package.

In: a seed. Out: the text of a kernel and its arguments; `check` runs it plainly and through the
package and compares every element; `minimise` deletes statements for as long as a case fails.

    python -m tests.random_kernels --count 20000 --seed 0
"""

import argparse
import ast
import contextlib
import itertools
import linecache
import multiprocessing
import os
import re
import sys
import time
import traceback
import types
import warnings
from typing import NamedTuple

import numpy as np

if __package__:
    from tests import plain
    from tests.kernel_grammar import Writer
else:
    import plain
    from kernel_grammar import Writer

LIMIT = 2**24


class Built(NamedTuple):
    source: str
    make_args: object  # 0, 1 → the arguments of a first and a second call


def _generated(seed):
    """The first kernel of the seed whose sums stay exact, its constructs, its plain results."""
    for attempt in range(100):
        writer = Writer(f"{seed} {attempt}")
        source = writer.write()
        make_args = lambda call, w=writer: w.arguments(seed, call)
        wanted = _plain(source, make_args)
        if wanted is not None:
            return Built(source, make_args), writer.features, wanted
    raise AssertionError(f"seed {seed}: no kernel in 100 attempts")


def build(seed):
    """The kernel of a seed, as text, and its arguments for a first and a second call."""
    return _generated(seed)[0]


def features(seed):
    """The constructs of the grammar that the kernel of the seed was written with."""
    return _generated(seed)[1]


@contextlib.contextmanager
def loaded(source):
    """The kernel of a source text, whose lines can be looked up as if it were a file."""
    filename = f"/random/kernel_{next(_numbers)}.py"
    lines = source.splitlines(True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    module = types.ModuleType("random_kernel")
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
        yield module.kernel
    finally:
        linecache.cache.pop(filename, None)


_numbers = itertools.count()


def _plain(source, make_args):
    """What plain Python leaves in the arguments of both calls; None if it leaves that open."""
    with loaded(source) as kernel:
        made = [make_args(call) for call in (0, 1)]
        try:
            for args in made:
                plain.run(kernel, *args, limit=LIMIT)
        except plain.Unspecified:
            return None
    return made


def check(source, make_args, wanted=None):
    """None if the package agrees with plain Python, else what is wrong."""
    wanted = wanted or _plain(source, make_args)
    with loaded(source) as kernel, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in (0, 1):
            args = make_args(call)
            try:
                kernel(*args)
            except Exception as error:  # whatever it is, it is a finding
                return f"call {call}: {type(error).__name__}: {error}"
            for k, (a, b) in enumerate(zip(args, wanted[call], strict=True)):
                if not np.array_equal(a, b):
                    at = tuple(int(i) for i in np.argwhere(a != b)[0])
                    return f"call {call}: argument {k} differs at {at}: {a[at]} for {b[at]}"
    return None


def _kind(problem):
    return problem and re.sub(r"\d+|0x\w+|`[^`]*`|'[^']*'", "#", problem.split("\n")[0])[:60]


def _smaller(tree):
    """Texts of the tree with one statement or expression gone or replaced by what it holds."""
    for owner in list(ast.walk(tree)):
        for attribute, value in ast.iter_fields(owner):
            if isinstance(value, list):
                choices = list(_shorter_lists(owner, attribute, value))
            elif isinstance(value, ast.expr) and attribute not in ("func", "annotation"):
                choices = [n for n in ast.walk(value) if isinstance(n, ast.expr) and n is not value]
                choices = [n for n in choices if not isinstance(n, (ast.Slice, ast.Lambda))]
                choices = [n for n in choices if getattr(n, "id", "") != "pypto"][:12]
            else:
                continue
            for choice in choices:
                setattr(owner, attribute, choice)
                with contextlib.suppress(AttributeError, ValueError):  # a choice that is no code
                    yield ast.unparse(ast.fix_missing_locations(tree))
                setattr(owner, attribute, value)


def _shorter_lists(owner, attribute, whole):
    for k, item in enumerate(whole):
        if isinstance(owner, ast.While) and k == 0:
            continue  # what makes the loop end
        rest = [*whole[:k], *whole[k + 1 :]]
        if isinstance(item, ast.stmt):
            yield rest or ([ast.Pass()] if attribute == "body" else [])
            inner = [*getattr(item, "body", ()), *getattr(item, "orelse", ())]
            if inner and not isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                yield [*whole[:k], *inner, *whole[k + 1 :]]
        elif isinstance(item, ast.expr) and attribute == "args":
            for part in ast.iter_child_nodes(item):
                if isinstance(part, ast.expr):
                    yield [*whole[:k], part, *whole[k + 1 :]]


def minimise(source, make_args):
    """The source with code deleted for as long as it fails in the same way."""
    wanted = _kind(check(source, make_args))
    if wanted is None:
        return source
    source, shrunk = ast.unparse(ast.parse(source)), True
    while shrunk:
        shrunk = False
        for text in _smaller(ast.parse(source)):
            if len(text) >= len(source):
                continue
            try:
                fails = _plain(text, make_args) and _kind(check(text, make_args)) == wanted
            except Exception:  # the text has no plain meaning any more
                fails = False
            if fails:
                source, shrunk = text, True
                break
    return source


def _try(seed):
    try:
        (source, make_args), _, wanted = _generated(seed)
        return seed, source, check(source, make_args, wanted)
    except Exception:
        return seed, "", traceback.format_exc()


def main():
    parser = argparse.ArgumentParser(description="random kernels against plain Python")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minimise", action="store_true", help="shrink what fails")
    parser.add_argument("--show", action="store_true", help="print the kernel of --seed and stop")
    given = parser.parse_args()
    if given.show:
        print(build(given.seed).source)
        return 0
    os.environ.setdefault("PYPTO_CHECK", "0")  # rules of the chip are not the point
    failed, start = 0, time.monotonic()
    seeds = range(given.seed, given.seed + given.count)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(multiprocessing.Pool(given.jobs)) if given.jobs > 1 else None
        results = pool.imap(_try, seeds, 16) if pool else map(_try, seeds)
        for k, (seed, source, problem) in enumerate(results, 1):
            if problem:
                failed += 1
                if given.minimise and source:
                    source = minimise(source, build(seed).make_args)
                print(f"\n---- seed {seed}: {problem}\n{source}", flush=True)
            if k % 500 == 0 or k == given.count:
                rate = k / (time.monotonic() - start)
                print(f"{k} kernels, {failed} failed, {rate:.0f} a second", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
