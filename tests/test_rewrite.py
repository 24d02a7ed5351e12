"""Passes make graphs smaller and keep their meaning."""

import numpy as np
import pytest

import pypto.ops  # noqa: F401 - the texts name ops
from pypto.interp.run import interpret
from pypto.ir.graph import walk
from pypto.ir.parse import parse
from pypto.ir.rewrite import PASSES, drop_invariant, prune
from pypto.ir.text import to_text
from pypto.ir.verify import verify

F32 = np.float32


def lines(text):
    return text.strip("\n") + "\n"


def becomes(before, after, *passes, arrays=()):
    """The text after the passes, and that a run gives the same."""
    graph = parse(before)
    verify(graph)
    plain = [a.copy() for a in arrays]
    interpret(graph, plain)
    for rewrite in passes:
        assert rewrite(graph) is graph
        verify(graph)
    assert to_text(graph) == lines(after)
    rewritten = [a.copy() for a in arrays]
    interpret(graph, rewritten)
    for a, b in zip(plain, rewritten):
        assert np.array_equal(a, b)
    return plain


def test_what_a_loop_only_reads_is_no_parameter():
    (_, out) = becomes(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0, %1, %2, %3 = loop(0, 3, 1) : fp32[2] in x, int, fp32[2] in out, int
    index %4 : int 0..2
    carry %5 = x : fp32[2] in x
    carry %6 = 7 : int
    carry %7 = out : fp32[2] in out
    carry %8 = %1_DEAD : int
    %9 = add(%5, %6) : fp32[2]
    %10 = assemble(%9, %7, offsets=(0,)) : fp32[2] in out
    yield %5, %6, %10, 0
  %11 = add(%0, %1) : fp32[2]
  %12 = assemble(%11, %2, offsets=(0,)) : fp32[2] in out
""".replace("%1_DEAD", "0"),
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = loop(0, 3, 1) : fp32[2] in out
    index %1 : int
    carry %2 = out : fp32[2] in out
    %3 = add(x, 7.0) : fp32[2]
    %4 = assemble(%3, %2, offsets=(0,)) : fp32[2] in out
    yield %4
  %5 = add(x, 7.0) : fp32[2]
  %6 = assemble(%5, %0, offsets=(0,)) : fp32[2] in out
""",
        drop_invariant,
        arrays=[np.arange(2, dtype=F32), np.zeros(2, F32)],
    )
    assert out.tolist() == [7, 8]


def test_invariants_of_nested_loops():
    becomes(
        """
graph g:
  dim n = x[0] : int 0..
  param x : fp32[n]
  param out : int32[1]
  %0, %1, %2 = loop(0, 2, 1) : int, fp32[n] in x, int32[1] in out
    index %3 : int 0..1
    carry %4 = n : int
    carry %5 = x : fp32[n] in x
    carry %6 = out : int32[1] in out
    %7, %8, %9 = loop(0, %4, 1) : int, fp32[n] in x, int32[1] in out
      index %10 : int 0..
      carry %11 = %4 : int
      carry %12 = %5 : fp32[n] in x
      carry %13 = %6 : int32[1] in out
      %14 = item(%13, index=(0,)) : int
      %15 = item_set(%13, index=(0,), value=%14 + %11) : int32[1] in out
      yield %11, %12, %15
    yield %7, %8, %9
""",
        """
graph g:
  dim n = x[0] : int 0..
  param x : fp32[n]
  param out : int32[1]
  %0 = loop(0, 2, 1) : int32[1] in out
    index %1 : int
    carry %2 = out : int32[1] in out
    %3 = loop(0, n, 1) : int32[1] in out
      index %4 : int
      carry %5 = %2 : int32[1] in out
      %6 = item(%5, index=(0,)) : int
      %7 = item_set(%5, index=(0,), value=n + %6) : int32[1] in out
      yield %7
    yield %3
""",
        drop_invariant,
        arrays=[np.zeros(3, F32), np.zeros(1, np.int32)],
    )


def test_extents_that_do_not_change_leave_the_types():
    becomes(
        """
graph g:
  param x : fp32[4]
  param out : fp32[4]
  %0, %1 = loop(0, 2, 1) : fp32[4] valid [%1], int 0..4
    index %2 : int 0..1
    carry %3 = x : fp32[4] valid [%4] in %0
    carry %4 = 4 : int 0..4
    %5 = add(%3, 1.0) : fp32[4] valid [%4]
    yield %5, %4
  %6 = assemble(%0, out, offsets=(0,)) : fp32[4] in out
""",
        """
graph g:
  param x : fp32[4]
  param out : fp32[4]
  %0 = loop(0, 2, 1) : fp32[4]
    index %1 : int
    carry %2 = x : fp32[4] in %0
    %3 = add(%2, 1.0) : fp32[4]
    yield %3
  %4 = assemble(%0, out, offsets=(0,)) : fp32[4] in out
""",
        drop_invariant,
        arrays=[np.arange(4, dtype=F32), np.zeros(4, F32)],
    )


def test_what_is_known_of_an_integer_is_not_lost():
    """Types were simplified by the bounds of the parameter; what it starts from has none."""
    text = lines(
        """
graph g:
  param i : int32[1]
  param x : fp32[4]
  param out : fp32[4]
  %0 = item(i, index=(0,)) : int
  %1, %2 = loop(0, 2, 1) : fp32[4], int
    index %3 : int
    carry %4 = x : fp32[4] in %1
    carry %5 = %0 : int 0..4
    %6 = view(%4, shape=(4,), offsets=(0,)) : fp32[4]
    %7 = view(x, shape=(4,), offsets=(4 - %5,)) : fp32[4] valid [%5]
    %8 = add(%6, %7) : fp32[4] valid [%5]
    print(items=(%8,), cond=0)
    yield %6, %5
  %9 = assemble(%1, out, offsets=(0,)) : fp32[4] in out
"""
    )
    graph = parse(text)
    verify(graph)
    drop_invariant(graph)
    verify(graph)
    assert "carry %5 = %0 : int 0..4" in to_text(graph)


def test_a_number_that_was_an_integer_of_the_run_gets_its_type():
    graph = parse(
        """
graph g:
  param x : fp16[2]
  param out : fp16[2]
  %0, %1 = loop(0, 2, 1) : int, fp16[2] in out
    index %2 : int
    carry %3 = 3 : int
    carry %4 = out : fp16[2] in out
    %5 = add(x, %3 + 1) : fp16[2]
    %6 = assemble(%5, %4, offsets=(0,)) : fp16[2] in out
    yield %3, %6
"""
    )
    drop_invariant(graph)
    verify(graph)
    number = graph.body.nodes[0].regions[0].nodes[0].attrs["other"]
    assert (number.dtype, number) == (np.float32, 4)


def test_a_name_that_keeps_an_old_value_stays_a_parameter():
    """The parameter holds the value at the start; the memory that it came from is written."""
    text = lines(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = add(x, 0.0) : fp32[2]
  %1, %2 = loop(0, 2, 1) : fp32[2], fp32[2] in %0
    index %3 : int
    carry %4 = %0 : fp32[2] in %1
    carry %5 = %0 : fp32[2] in %0
    %6 = add(%5, 1.0) : fp32[2]
    %7 = move(%6, %5) : fp32[2] in %0
    yield %4, %7
  %8 = sub(%2, %1) : fp32[2]
  %9 = assemble(%8, out, offsets=(0,)) : fp32[2] in out
"""
    )
    (_, out) = becomes(text, text, *PASSES, arrays=[np.arange(2, dtype=F32), np.zeros(2, F32)])
    assert out.tolist() == [2, 2]


def test_arms_that_agree():
    becomes(
        """
graph g:
  param c : int32[1]
  param out : int32[1]
  %0 = item(c, index=(0,)) : int
  %1, %2 = cond(%0 == 0) : int, int32[1] in c
  then:
    print(items=('then',), cond=0)
    yield %0 + 1, c
  else:
    yield %0 + 1, c
  %3 = item(%2, index=(0,)) : int
  %4 = item_set(out, index=(0,), value=%1 + %3) : int32[1] in out
""",
        """
graph g:
  param c : int32[1]
  param out : int32[1]
  %0 = item(c, index=(0,)) : int
  cond(%0 == 0)
  then:
    print(items=('then',), cond=0)
  else:
  %1 = item(c, index=(0,)) : int
  %2 = item_set(out, index=(0,), value=%0 + %1 + 1) : int32[1] in out
""",
        drop_invariant,
        arrays=[np.array([4], np.int32), np.zeros(1, np.int32)],
    )


def test_what_nothing_depends_on_goes():
    becomes(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = add(x, 1.0) : fp32[2]
  %1 = mul(%0, 2.0) : fp32[2]
  %2 = full(size=(2,), fill_value=fp32(0.0), dtype=DT_FP32) : fp32[2]
  %3, %4, %5 = loop(0, 3, 1) : fp32[2], int, fp32[2]
    index %6 : int 0..2
    carry %7 = %2 : fp32[2] in %3
    carry %8 = 0 : int
    carry %9 = %1 : fp32[2] in %5
    %10 = add(%7, x) : fp32[2]
    %11 = mul(%9, %9) : fp32[2]
    %12, %13 = cond(%6 == 1) : fp32[2], fp32[2]
    then:
      %14 = mul(%10, 2.0) : fp32[2]
      %15 = mul(%10, 3.0) : fp32[2]
      yield %14, %15
    else:
      yield %10, %11
    yield %12, %8 + 1, %13
  %16 = assemble(%3, out, offsets=(0,)) : fp32[2] in out
  loop(0, 3, 1)
    index %17 : int 0..2
    %18 = add(x, 1.0) : fp32[2]
  cond(1)
  then:
    %19 = add(x, 1.0) : fp32[2]
  else:
""",
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = full(size=(2,), fill_value=fp32(0.0), dtype=DT_FP32) : fp32[2]
  %1 = loop(0, 3, 1) : fp32[2]
    index %2 : int 0..2
    carry %3 = %0 : fp32[2] in %1
    %4 = add(%3, x) : fp32[2]
    %5 = cond(%2 == 1) : fp32[2]
    then:
      %6 = mul(%4, 2.0) : fp32[2]
      yield %6
    else:
      yield %4
    yield %5
  %7 = assemble(%1, out, offsets=(0,)) : fp32[2] in out
""",
        prune,
        arrays=[np.arange(2, dtype=F32), np.zeros(2, F32)],
    )


def test_writes_to_what_nobody_reads_go():
    graph = parse(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = empty(name='t') : fp32[2]
  %1 = assemble(x, %0, offsets=(0,)) : fp32[2] in %0
  %2 = view(x, shape=(1,), offsets=(1,)) : fp32[1]
  %3 = assemble(%2, out, offsets=(0,)) : fp32[2] in out
"""
    )
    prune(graph)
    verify(graph)
    assert [n.op.name for n in walk(graph.body)] == ["view", "assemble"]


def test_writes_to_local_memory_that_is_read_stay():
    text = lines(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = empty(name='t') : fp32[2]
  %1 = loop(0, 2, 1) : fp32[2] in %0
    index %2 : int 0..1
    carry %3 = %0 : fp32[2] in %0
    %4 = view(x, shape=(1,), offsets=(%2,)) : fp32[1]
    %5 = assemble(%4, %3, offsets=(1 - %2,)) : fp32[2] in %0
    yield %5
  %6 = assemble(%1, out, offsets=(0,)) : fp32[2] in out
"""
    )
    (_, out) = becomes(text, text, *PASSES, arrays=[np.arange(2, dtype=F32), np.zeros(2, F32)])
    assert out.tolist() == [1, 0]


def test_fewer_writes_mean_fewer_snapshots():
    graph = parse(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = add(x, 1.0) : fp32[2]
  %1 = view(%0, shape=(2,), offsets=(0,)) : fp32[2]
  %2 = full(size=(2,), fill_value=fp32(0.0), dtype=DT_FP32) : fp32[2]
  %3 = move(%2, %0) : fp32[2] in %0
  %4 = assemble(%1, out, offsets=(0,)) : fp32[2] in out
"""
    )
    storage = graph.body.nodes[0].result.storage
    assert storage.written
    prune(graph)
    assert not storage.written
    assert graph.params[1].value.storage.written
    assert [n.op.name for n in walk(graph.body)] == ["add", "view", "assemble"]


KEPT = """
graph g:
  param i : int32[4]
  param x : fp32[4]
  param out : int32[1]
  %0 = item(i, index=(0,)) : int
  NODE
  %9 = item_set(out, index=(0,), value=1) : int32[1] in out
"""


@pytest.mark.parametrize(
    ("node", "stays"),
    [
        ("%1 = item(i, index=(%0,)) : int", True),
        ("%1 = item(i, index=(3,)) : int", False),
        ("%1 = view(x, shape=(2,), offsets=(%0,)) : fp32[2] valid [min(2, max(4 - %0, 0))]", True),
        ("%1 = view(x, shape=(2,), offsets=(3,)) : fp32[2] valid [1]", False),
        ("%1 = view(x, shape=(2,), offsets=(0,), given=(%0,)) : fp32[2] valid [%0]", True),
        ("require(%0, error='ValueError', code='', text='t', fix='')", True),
        ("print(items=(%0,), cond=0)", True),
        ("%1 = integer(%0 + 1) : int", False),
        ("%1 = gather(x, dim=0, index=i) : fp32[4]", True),
        ("%1 = cumsum(x, dim=0) : fp32[4]", False),
        ("loop(0, 4, %0)\n    index %1 : int", True),
        ("loop(0, %0, 2)\n    index %1 : int", False),
    ],
)
def test_what_may_end_in_an_error_stays(node, stays):
    graph = parse(KEPT.replace("NODE", node))
    verify(graph)
    name = graph.body.nodes[1].op.name
    prune(graph)
    verify(graph)
    names = [n.op.name for n in graph.body.nodes]
    wanted = [name] if stays else []
    needs_item = stays and ("%0" in node)
    assert names == (["item"] if needs_item else []) + wanted + ["item_set"]


def test_writes_that_may_leave_their_destination_stay():
    graph = parse(
        """
graph g:
  param i : int32[1]
  param x : fp32[2]
  param out : int32[1]
  %0 = item(i, index=(0,)) : int
  %1 = empty(name='t') : fp32[4]
  %2 = assemble(x, %1, offsets=(%0,)) : fp32[4] in %1
  %3 = empty(name='u') : fp32[4]
  %4 = assemble(x, %3, offsets=(2,)) : fp32[4] in %3
  %5 = item_set(out, index=(0,), value=1) : int32[1] in out
"""
    )
    prune(graph)
    verify(graph)
    names = [n.op.name for n in graph.body.nodes]
    assert names == ["item", "empty", "assemble", "item_set"]
    with pytest.raises(IndexError, match=r"assemble writes rows 3..4 of a 4-row tensor"):
        interpret(graph, [np.array([3], np.int32), np.zeros(2, F32), np.zeros(1, np.int32)])


def test_passes_run_in_the_order_in_which_they_help():
    assert PASSES == (drop_invariant, prune)
    graph = parse(
        """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = mul(x, 2.0) : fp32[2]
  %1, %2 = loop(0, 2, 1) : fp32[2] in %0, fp32[2] in out
    index %3 : int 0..1
    carry %4 = %0 : fp32[2] in %0
    carry %5 = out : fp32[2] in out
    %6 = assemble(x, %5, offsets=(0,)) : fp32[2] in out
    yield %4, %6
"""
    )
    for rewrite in PASSES:
        graph = rewrite(graph)
    verify(graph)
    assert [n.op.name for n in walk(graph.body)] == ["loop", "assemble"]
    (loop,) = graph.body.nodes
    assert len(loop.results) == len(loop.regions[0].yields) == len(loop.attrs["inits"]) == 1


def test_passes_need_no_deep_stack():
    """A branch in a branch in a branch: as deep as no kernel goes, and 20 000 nodes in a row."""
    text = ["graph g:", "  param x : fp32[1]", "  %0 = add(x, 0.0) : fp32[1]"]
    text += [f"  %{k} = add(%{k - 1}, 1.0) : fp32[1]" for k in range(1, 20_000)]
    text.append("  %20000 = assemble(%100, x, offsets=(0,)) : fp32[1] in x")
    graph = parse("\n".join(text))
    for rewrite in PASSES:
        graph = rewrite(graph)
    assert graph.count() == 102
