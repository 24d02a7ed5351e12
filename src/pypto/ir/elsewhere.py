"""Names of other array libraries, and how the same is written here.

In: a name that does not exist, and what the user wrote round it.  Out: the nearest name that does,
or an expression of the language that means the same.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from pypto.ir import written

# Names that mean an op here, under which its arguments are the same.
NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "arrange": "arange",
    "astype": "cast",
    "broadcast_to": "expand_clone",
    "cat": "concat",
    "cdiv": "ceildiv",
    "clamp": "clip",
    "concatenate": "concat",
    "divide": "div",
    "empty": "tensor",
    "expand": "expand_clone",
    "fabs": "abs",
    "floor_divide": "floor_div",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "max": "amax",
    "min": "amin",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "range": "loop",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "reduce_prod": "prod",
    "reduce_sum": "sum",
    "subtract": "sub",
    "true_divide": "div",
}

_MEAN = "{x}.sum({dim}{keepdim}) * (1.0 / {x}.shape[{dim}])"
_PRODUCT = "pypto.matmul({t}, {other}, {x}.dtype)"
_STD = "pypto.sqrt(pypto.var({t}, {dim}{keepdim}))"
_HOST = "leave `.{name}()` out: a tensor of a kernel is in one piece and on the device"

# Code, and advice in words where code alone cannot say it.  {t} is the tensor, {x} the same before
# a dot or an operator, {other} the argument behind it.
WAYS = {
    "T": ("`pypto.transpose({t}, 0, 1)`, or in `pypto.matmul` `a_trans=True`, `b_trans=True`"),
    "average": _MEAN,
    "bfloat16": "pypto.cast({t}, pypto.DT_BF16)",
    "bmm": _PRODUCT,
    "contiguous": _HOST,
    "cpu": _HOST,
    "cuda": _HOST,
    "detach": _HOST,
    "dot": _PRODUCT,
    "empty_like": "pypto.tensor({x}.shape, {x}.dtype)",
    "flatten": "{x}.reshape([-1])",
    "full_like": "pypto.full({x}.shape, {other}, {x}.dtype)",
    "gelu": "{x} * 0.5 * (pypto.erf({x} * 0.7071067811865476) + 1.0)",
    "half": "pypto.cast({t}, pypto.DT_FP16)",
    "int": "pypto.cast({t}, pypto.DT_INT32)",
    "item": "read an element of an integer tensor with one index per axis: `{x}[0, 0]`",
    "long": "pypto.cast({t}, pypto.DT_INT64)",
    "matmul": _PRODUCT,
    "mean": _MEAN,
    "mm": _PRODUCT,
    "ndim": "{x}.dim",
    "numel": "multiply the entries of `{x}.shape`",
    "ones_like": "pypto.ones({x}.shape, dtype={x}.dtype)",
    "ravel": "{x}.reshape([-1])",
    "reduce_mean": _MEAN,
    "silu": "{x} * pypto.sigmoid({t})",
    "size": "{x}.shape",
    "square": "{x} * {x}",
    "std": _STD,
    "swapaxes": "pypto.transpose({t}, {other}, {third})",
    "t": "pypto.transpose({t}, 0, 1)",
    "zeros_like": "pypto.zeros({x}.shape, dtype={x}.dtype)",
}

_CASTS = ("to", "type", "astype", "cast")
_DTYPES = {
    "float": "DT_FP32",
    "float32": "DT_FP32",
    "float16": "DT_FP16",
    "half": "DT_FP16",
    "bfloat16": "DT_BF16",
    "int8": "DT_INT8",
    "int16": "DT_INT16",
    "int32": "DT_INT32",
    "int": "DT_INT32",
    "int64": "DT_INT64",
    "item": "read an element of an integer tensor with one index per axis: `{x}[0, 0]`",
    "long": "DT_INT64",
}


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that a misspelt one most likely means."""
    if NAMES.get(name) in known:
        return NAMES[name]
    if name in WAYS:
        return None
    # Only mistakes need it, and it is slow to import.
    import difflib

    # What is less alike than this has only letters in common.
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.76)
    if close:
        return close[0]
    # eps for epsilon, transp for transpose: shortened, and one only.
    short = [k for k in known if len(name) > 2 and k.startswith(name)]
    return short[0] if len(short) == 1 else None


def way(name: str) -> str | None:
    """What is written here for an attribute or a function of another library, at the place where
    the user wrote it.
    """
    if name not in WAYS and name not in _CASTS:
        return None
    node = written.expression()
    call = written.call(behind_name=True) if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Call):
        call = node
    items: list[ast.expr] = [] if call is None else written.arguments(call)
    if call is None and isinstance(node, ast.Attribute):
        items = [node.value]
    named = {} if call is None else {k.arg: written.text(k.value) for k in call.keywords}
    texts = [written.text(item) for item in items]
    others = texts[1:]
    tensor = texts[0] if texts else "t"
    if name in _CASTS:
        wanted = named.get("dtype", others[0] if others else "")
        return f"pypto.cast({tensor}, {_dtype(wanted)})"
    keepdim = named.get("keepdim", named.get("keepdims", others[1] if len(others) > 1 else ""))
    if name == "size" and others:
        return f"{written.part(items[0])}.shape[{others[0]}]"
    whole = f"{written.part(items[0])}.reshape([1, -1])" if items else ""
    is_whole = call is not None and not others and not {"dim", "axis"} & named.keys()
    if whole and is_whole and WAYS[name] in (_MEAN, _STD):
        # Without an axis they are those of all elements.
        tensor, others, keepdim = whole, ["-1"], "True"
    fields = {
        "name": name,
        "t": tensor,
        "x": whole if tensor == whole else written.part(items[0]) if items else "t",
        "dim": named.get("dim", named.get("axis", others[0] if others else "-1")),
        "keepdim": f", keepdim={keepdim}" if keepdim else "",
        "other": others[0] if others else named.get("fill_value", "u"),
        "third": others[1] if len(others) > 1 else "1",
    }
    return WAYS[name].format_map(fields)


def _dtype(text: str) -> str:
    """An element type here for one of another library, as the user wrote it."""
    if text.startswith("pypto."):
        return text
    last = text.rpartition(".")[2].strip("\"'")
    return f"pypto.{_DTYPES.get(last, 'DT_FP32')}"
