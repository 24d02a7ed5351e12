"""The text form of graphs, the check of what is legal, and how tensor values are printed."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import pypto.ops  # noqa: F401 - the texts name ops
from pypto.errors import InternalError, Loc
from pypto.interp.run import interpret
from pypto.ir import sym
from pypto.ir.dtype import DataType, Element
from pypto.ir.graph import Graph, Node, Param, Region, Storage, Value, int_value
from pypto.ir.op import REGISTRY, Slot
from pypto.ir.options import CubeTile, Settings
from pypto.ir.parse import parse
from pypto.ir.show import get_print_options, set_print_options, show
from pypto.ir.text import to_text
from pypto.ir.types import CastMode, TensorType, TileOpFormat, full
from pypto.ir.verify import verify

F32 = np.float32

WHOLE = """\
graph demo:                                                             # k.py:3
  dim n = x[0] : int 0..
  param x : fp32[n, 4]
  param out : fp32[n, 4]
  settings(vec=(16, 64), cube=CubeTile(m=(16, 16), k=(64, 64, 64), n=(16, 16)))
  %0 = full(size=(1, 4), fill_value=fp32(0.1), dtype=DT_FP32) : fp32[1, 4]
  %1 = add(%0, 0.1) : fp32[1, 4]                                        # m.py:9 < k.py:4
  %2, %3, %4 = loop(0, n, 1) : fp32[1, 4] valid [%3, 4], int 0..1, fp32[n, 4] in out
    index %5 : int 0..
    carry %6 = %1 : fp32[1, 4] valid [%7, 4] in %2
    carry %7 = 1 : int 0..1
    carry %8 = out : fp32[n, 4] in out
    settings(vec=(1, 64))
    %9 = view(x, shape=(1, 4), offsets=(%5, 0)) : fp32[1, 4] valid [min(1, max(0, n - %5)), 4]
    %10 = assemble(%9, %8, offsets=(n - %5 - 1, 0)) : fp32[n, 4] in out # k.py:6
    %11 = cond((%5 == 2) or (n < %5 + 3)) : fp32[1, 4] valid [%7, 4]
    then:
      %12 = mul(%6, -2.0) : fp32[1, 4] valid [%7, 4]
      yield %12
    else:
      yield %6
    yield %11, %7, %10
  settings(None)
  print(items=('# end', %2, n*n - n*2), cond=1)
"""


def test_a_graph_reads_back():
    graph = parse(WHOLE)
    verify(graph)
    assert to_text(graph) == WHOLE
    assert str(graph) == WHOLE
    assert to_text(parse(to_text(graph))) == WHOLE


def test_what_reading_restores():
    graph = parse(WHOLE)
    x, out = (p.value for p in graph.params)
    assert (x.storage.param, out.storage.param) == (0, 1)
    assert (x.storage.written, out.storage.written) == (False, True)
    fill, add, loop, show_node = graph.body.nodes
    assert fill.loc is None
    assert list(add.loc.frames) == [Loc("m.py", 9, outer=Loc("k.py", 4)), Loc("k.py", 4)]
    cube = CubeTile((16, 16), (64, 64, 64), (16, 16))
    assert add.tile == Settings(vec=(16, 64), cube=cube)
    assert show_node.tile is None
    assert loop.regions[0].nodes[0].tile == Settings(vec=(1, 64))
    assert add.attrs["other"].dtype == F32
    assert add.attrs["other"] == F32(0.1)
    assert add.attrs["input_tensor"] == Slot(0)
    assert loop.attrs["inits"] == (add.result, 1, out)
    assert loop.results[2].storage is out.storage
    assert loop.regions[0].params[1].storage is loop.results[0].storage
    index = graph.params[0].dims[0]
    assert sym.leaf(index).bounds() == (0, sym.INF)
    assert show_node.attrs["items"][0] == "# end"


def test_a_read_graph_has_the_same_meaning():
    x = np.arange(12, dtype=F32).reshape(3, 4)
    for text in (WHOLE, to_text(parse(WHOLE))):
        graph = parse(text)
        graph.body.nodes.pop()  # the print
        out = np.zeros((3, 4), F32)
        interpret(graph, [x, out])
        assert np.array_equal(out, x[::-1])


def one_node(op, operands=(), result=None, **attrs):
    """A graph of one node over parameters of the given types."""
    params = []
    for k, type in enumerate(operands):
        storage = Storage(type, f"p{k}", k)
        params.append(Param(f"p{k}", Value(type, storage, f"p{k}")))
    node = Node(REGISTRY[op], tuple(p.value for p in params), attrs, None)
    if result is not None:
        node.results = (Value(result, Storage(result), "r", node),)
    body = Region()
    body.nodes.append(node)
    return Graph("g", params, body)


def last_line(graph):
    return to_text(graph).splitlines()[-1].strip()


T = full(DataType.DT_FP32, (2, 2))
H = full(DataType.DT_FP16, (2, 2))
I = full(DataType.DT_INT32, (2, 2))


@pytest.mark.parametrize(
    ("number", "tensor", "said"),
    [
        (F32(0.1), T, "0.1"),
        (F32(2), T, "2.0"),
        (F32(1e30), T, "1e+30"),
        (F32(-0.0), T, "-0.0"),
        (F32("inf"), T, "float('inf')"),
        (F32("-inf"), T, "float('-inf')"),
        (F32(1) / F32(3), T, "0.33333334"),
        (F32(0.1), H, "0.1"),
        (np.float16(0.1), H, "fp16(0.1)"),
        (np.int32(-7), I, "-7"),
        (np.int16(-7), I, "int16(-7)"),
        (np.True_, T, "bool(True)"),
    ],
)
def test_numbers(number, tensor, said):
    graph = one_node("add", (tensor,), tensor, input_tensor=Slot(0), other=number)
    assert last_line(graph).startswith(f"%0 = add(p0, {said}) : ")
    again = parse(to_text(graph)).body.nodes[0].attrs["other"]
    assert again.dtype == number.dtype
    assert again.tobytes() == number.tobytes()


def test_nan_is_a_number_too():
    graph = one_node("add", (T,), T, input_tensor=Slot(0), other=F32("nan"))
    assert "add(p0, float('nan'))" in last_line(graph)
    assert np.isnan(parse(to_text(graph)).body.nodes[0].attrs["other"])


def test_bfloat16_numbers_read_back():
    for x in (0.1, 3.14159, 1e-30, 65280.0):
        number = ml_dtypes.bfloat16(x)
        graph = one_node("add", (T,), T, input_tensor=Slot(0), other=number)
        again = parse(to_text(graph)).body.nodes[0].attrs["other"]
        assert again.dtype == number.dtype
        assert again == number


@pytest.mark.parametrize(
    "item",
    [
        None,
        True,
        3,
        -4,
        0.25,
        'it\'s "q" # %3 \n',
        DataType.DT_BF16,
        CastMode.CAST_RINT,
        (1, 2),
        (1,),
        (),
        [1, "a"],
        {"a": (1, 2), "b": None},
        ("x", [True]),
    ],
)
def test_attributes(item):
    graph = one_node("empty", (), T, name=item)
    again = parse(to_text(graph)).body.nodes[0].attrs["name"]
    assert again == item
    assert type(again) is type(item)


def test_elements():
    graph = one_node("empty", (), T, name=Element(DataType.DT_FP16, 0.5))
    again = parse(to_text(graph)).body.nodes[0].attrs["name"]
    assert (again.dtype, again.value) == (DataType.DT_FP16, 0.5)


def test_an_attribute_without_text_is_ours():
    with pytest.raises(InternalError, match="no text form of an attribute of type object"):
        to_text(one_node("empty", (), T, name=object()))


def integers():
    """Expressions of every operation over three integers."""
    a, b, c = (sym.leaf(int_value(n), lo, 100) for n, lo in zip("abc", (0, -50, 1)))
    e = [a, sym.add(a, 3), sym.sub(sym.mul(a, 2), sym.mul(b, 5)), sym.mul(a, sym.mul(b, c))]
    e += [sym.neg(a), sym.sub(sym.neg(a), 1), sym.floordiv(sym.add(a, b), 4), sym.mod(b, 3)]
    e += [sym.floordiv(b, c), sym.mod(sym.mul(a, b), c), sym.minimum(a, b), sym.maximum(c, a)]
    e += [sym.compare(op, a, sym.add(b, 1)) for op in sym.COMPARE]
    t, u = sym.compare("lt", a, b), sym.compare("eq", b, 3)
    e += [sym.logical("and", t, u), sym.logical("or", t, u), sym.logical_not(t)]
    e += [sym.select(t, a, sym.add(b, 1)), sym.mul(sym.floordiv(b, 3), sym.mod(b, 3))]
    e += [sym.minimum(sym.maximum(sym.sub(a, b), 0), 16), sym.compare("eq", t, u)]
    e += [sym.floordiv(a, sym.mul(c, 2)), sym.mod(a, sym.mul(c, c)), sym.floordiv(a, sym.add(c, 1))]
    e += [sym.mod(sym.floordiv(sym.select(u, b, sym.mul(a, a)), 2), 7), sym.floordiv(b, -3)]
    return (a, b, c), e


def test_integers_read_back_with_their_values():
    leaves, expressions = integers()
    names = [next(iter(x.leaves())) for x in leaves]
    for e in expressions:
        lines = ["graph g:", "  param t : int32[3]"]
        for k, leaf in enumerate(leaves):
            lo, hi = leaf.bounds()
            lines.append(f"  %{k} = item(t, index=({k},)) : int {lo}..{hi}")
        body = one_node("integer", (), None, value=e)
        written = to_text(body).splitlines()[-1].strip().removeprefix("integer(")[:-1]
        for k, name in enumerate(names):
            written = written.replace(f"<{name.name}, not made above>", f"%{k}")
        lines.append(f"  integer({written})")
        graph = parse("\n".join(lines))
        again = graph.body.nodes[-1].attrs["value"]
        made = [node.result for node in graph.body.nodes[:3]]
        for numbers in ((0, -50, 1), (7, 3, 2), (100, 2, 99), (12, -1, 5)):
            old = sym.evaluate(e, lambda v: numbers[names.index(v)])
            assert sym.evaluate(again, lambda v: numbers[made.index(v)]) == old
        assert to_text(parse(to_text(graph))) == to_text(graph)


def test_the_order_of_terms_does_not_depend_on_the_run():
    a, b = (sym.leaf(int_value(n)) for n in "ab")
    pairs = [
        (sym.add(a, b), sym.add(b, a)),
        (sym.minimum(a, b), sym.minimum(b, a)),
        (sym.mul(a, b), sym.mul(b, a)),
    ]
    for x, y in pairs:
        assert last_line(one_node("integer", (), None, value=x)) == last_line(
            one_node("integer", (), None, value=y)
        )


def test_types():
    nz = TensorType(DataType.DT_FP16, (16, 32), (16, 32), TileOpFormat.TILEOP_NZ)
    partly = TensorType(DataType.DT_BOOL, (4,), (3,))
    for type, said in ((nz, "fp16[16, 32] nz"), (partly, "bool[4] valid [3]")):
        graph = one_node("empty", (), type, name="")
        assert last_line(graph) == f"%0 = empty(name='') : {said}"
        assert parse(to_text(graph)).body.nodes[0].result.type == type


def test_names_are_unique():
    graph = one_node("add", (T, T), T, input_tensor=Slot(0), other=Slot(1))
    for param in graph.params:
        param.name = "None"
    text = to_text(graph)
    assert "  param None_2 : fp32[2, 2]\n  param None_3 : fp32[2, 2]\n" in text
    assert "add(None_2, None_3)" in text
    assert to_text(parse(text)) == text


def test_a_graph_prints_itself_as_soon_as_the_package_is_there():
    code = "import pypto\nfrom pypto.ir.graph import Graph, Region\nprint(Graph('g', [], Region()))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "graph g:\n\n"


def test_bad_text_names_its_line():
    head = "graph g:\n  param x : fp32[2]\n"
    cases = {
        "": "begins with",
        "kernel g:\n": "line 1 .*begins with",
        head + "  %0 = add(x, y) : fp32[2]\n": "line 3 ",
        head + "  %0 = teleport(x) : fp32[2]\n": "line 3 .*teleport",
        head + "  %0 = add(x, 1.0) : fp99[2]\n": "line 3 ",
        head + "  %0 = add(x, 1.0, extra=3) : fp32[2]\n": "line 3 .*no argument extra",
        head + "  %0 = add(x, 1.0 : fp32[2]\n": "line 3 .*not closed",
        head + "  loop(0, 3, 1)\n  %0 = add(x, 1.0) : fp32[2]\n": "line 4 .*index",
        head + "  cond(1)\n  then:\n": "a branch has `else:`",
        head + "  %0 = add(x, 1.0) : fp32[2]\n  %0 = add(x, 1.0) : fp32[2]\n": "line 4 .*twice",
        head + "      %0 = add(x, 1.0) : fp32[2]\n": "line 3 .*depth",
    }
    for text, said in cases.items():
        with pytest.raises(ValueError, match=said) as caught:
            parse(text)
        assert caught.value.code == "F00002"


# --- verify --------------------------------------------------------------------------------------

LEGAL = """
graph g:
  param x : fp32[4]
  param out : fp32[4]
  %0 = item_free()
  %1 = add(x, 1.0) : fp32[4]
  %2, %3 = loop(0, 3, 1) : fp32[4], int
    index %4 : int 0..2
    carry %5 = %1 : fp32[4] in %2
    carry %6 = 0 : int
    %7 = cond(%4 == 1) : fp32[4]
    then:
      %8 = add(%5, %1) : fp32[4]
      yield %8
    else:
      yield %5
    yield %7, %6 + 1
  %9 = assemble(%2, out, offsets=(0,)) : fp32[4] in out
""".replace("  %0 = item_free()\n", "")


def nodes_of():
    graph = parse(LEGAL)
    add, loop, write = graph.body.nodes
    return graph, add, loop, write


def refuse(graph, said, line=None):
    with pytest.raises(InternalError, match=said) as caught:
        verify(graph)
    assert "the graph is not legal" in caught.value.text
    if line is not None:
        assert caught.value.loc.line == line


def test_a_legal_graph_passes():
    verify(parse(LEGAL))


def test_the_place_and_the_node_are_named():
    graph, add, loop, write = nodes_of()
    add.loc = Loc("k.py", 7)
    del add.attrs["other"]
    refuse(graph, r"missing \['other'\], unknown \[\], in add\(x: fp32\[4\]\) -> %1", 7)


def test_operands_are_made_before_they_are_used():
    graph, add, loop, write = nodes_of()
    graph.body.nodes = [loop, add, write]
    refuse(graph, "%1 is used where it is not made")
    graph, add, loop, write = nodes_of()
    inner = loop.regions[0].nodes[0].regions[0].nodes[0]
    write.operands = (inner.result, write.operands[1])
    refuse(graph, "%8 is used where it is not made")
    graph, add, loop, write = nodes_of()
    write.attrs["offsets"] = (sym.leaf(loop.regions[0].params[0]),)
    refuse(graph, "%4 is used where it is not made")


def test_values_are_made_once():
    graph, add, loop, write = nodes_of()
    graph.body.nodes.insert(1, add)
    refuse(graph, "%1 is made twice")


def test_slots_match_operands():
    graph, add, loop, write = nodes_of()
    write.attrs["dst"] = Slot(0)
    refuse(graph, r"2 operands, named by slots \[0, 0\]")


def test_types_are_those_of_the_record():
    graph, add, loop, write = nodes_of()
    add.result.type = full(DataType.DT_FP16, (4,))
    refuse(graph, r"%1 is fp16\[4\], the record says fp32\[4\]")
    graph, add, loop, write = nodes_of()
    add.result.type = TensorType(DataType.DT_FP32, (4,), (3,))
    refuse(graph, r"%1 is fp32\[4\] valid \[3\], the record says fp32\[4\]")


def test_regions_fit():
    graph, add, loop, write = nodes_of()
    loop.regions[0].yields.pop()
    refuse(graph, "do not fit")
    graph, add, loop, write = nodes_of()
    loop.regions[0].nodes[0].regions[1].yields = []
    refuse(graph, "yields and results do not fit")
    graph, add, loop, write = nodes_of()
    loop.regions[0].yields.reverse()
    refuse(graph, "of type")
    graph, add, loop, write = nodes_of()
    loop.attrs["inits"] = (add.result, add.result)
    refuse(graph, "the integer %6 gets the tensor %1")


def test_storages_fit():
    graph, add, loop, write = nodes_of()
    write.result.storage = Storage(write.result.tensor)
    refuse(graph, "does not live in the storage that is written")
    graph, add, loop, write = nodes_of()
    graph.params[1].value.storage.written = False
    refuse(graph, "not marked as written")
    graph, add, loop, write = nodes_of()
    add.result.storage = graph.params[0].value.storage
    refuse(graph, "%1 lives in the storage of another tensor")
    graph, add, loop, write = nodes_of()
    graph.params[0].value.storage.param = 1
    refuse(graph, "parameter x does not live in its own argument")


def test_require_names_an_exception():
    graph = one_node("require", (), None, cond=1, error="Oops", code="", text="", fix="")
    refuse(graph, "'Oops' names no exception")


# --- printed values ------------------------------------------------------------------------------


@pytest.fixture
def options():
    before = get_print_options()
    yield
    set_print_options(**before)


def test_small_tensors_are_shown_whole(options):
    assert get_print_options() == {
        "edgeitems": 3,
        "precision": 4,
        "threshold": 1000,
        "linewidth": 80,
    }
    x = np.array([[1, 2.5], [-3, 4]], F32)
    assert show(x, DataType.DT_FP32, (2, 2)) == (
        "tensor([[ 1.0000,  2.5000],\n"
        "        [-3.0000,  4.0000]],\n"
        "       dtype=DT_FP32, shape=[2, 2])"
    )
    assert show(np.array([1, 20], np.int32), DataType.DT_INT32, (2,)) == (
        "tensor([ 1, 20], dtype=DT_INT32, shape=[2])"
    )
    assert show(np.array([True, False]), DataType.DT_BOOL, (2,)) == (
        "tensor([ True, False], dtype=DT_BOOL, shape=[2])"
    )


def test_only_the_valid_box_is_shown():
    x = np.array([[1.0, 2.0]], F32)
    assert show(x, DataType.DT_FP32, (4, 2)) == (
        "tensor([[1.0000, 2.0000]], dtype=DT_FP32, shape=[4, 2], valid_shape=[1, 2])"
    )
    assert show(x[:0], DataType.DT_FP32, (4, 2)) == (
        "tensor([], dtype=DT_FP32, shape=[4, 2], valid_shape=[0, 2])"
    )


def test_half_types_are_shown_as_numbers():
    x = np.array([0.5, float("nan")], ml_dtypes.bfloat16)
    assert show(x, DataType.DT_BF16, (2,)) == ("tensor([0.5000,    nan], dtype=DT_BF16, shape=[2])")


def test_long_tensors_are_summarised(options):
    x = np.arange(2000, dtype=np.int32)
    assert show(x, DataType.DT_INT32, (2000,)) == (
        "tensor([   0,    1,    2, ..., 1997, 1998, 1999],\n       dtype=DT_INT32, shape=[2000])"
    ).replace(",\n       dtype", ", dtype")
    set_print_options(threshold=3, edgeitems=1, precision=2, linewidth=40)
    y = np.arange(12, dtype=F32).reshape(3, 4)
    assert show(y, DataType.DT_FP32, (3, 4)) == (
        "tensor([[ 0.00, ...,  3.00],\n"
        "        ...,\n"
        "        [ 8.00, ..., 11.00]],\n"
        "       dtype=DT_FP32, shape=[3, 4])"
    )
    set_print_options(edgeitems=2)
    assert get_print_options()["threshold"] == 3


def test_print_options_are_checked(options):
    with pytest.raises(TypeError, match="precision must be an int, got str"):
        set_print_options(precision="4")
    with pytest.raises(ValueError, match="edgeitems must be at least 1, got 0"):
        set_print_options(edgeitems=0)
    assert get_print_options()["edgeitems"] == 3
