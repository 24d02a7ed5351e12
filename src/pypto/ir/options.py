"""The settings of the language: tile shapes, option groups, labels, and how far each one reaches.

No setting changes a value.  Tile shapes and options are recorded beside every node for the stages
that speak of the chip.  A setting made inside a `pypto.loop` body or a symbolic branch is undone
at its end; every kernel starts from what the host has set.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pypto.errors import PyptoNote, error, warn
from pypto.ir import place
from pypto.ir.elsewhere import nearest
from pypto.ir.findings import attempt
from pypto.ir.keywords import known_keywords
from pypto.ir.scalar import SymbolicScalar
from pypto.ir.types import RunMode


@dataclass(frozen=True)
class CubeTile:
    """Tile of a matmul: `[L0, L1]` per axis; k has three entries (L0, L1 of A, L1 of B)."""

    m: tuple[int, ...]
    k: tuple[int, ...]
    n: tuple[int, ...]
    enable_split_k: bool = False


@dataclass(frozen=True)
class Settings:
    """All settings in force at one place.  Immutable, so nodes share it."""

    vec: tuple[int, ...] = ()
    cube: CubeTile | None = None
    conv: Any = None
    matrix_size: tuple[int, ...] = ()
    label: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Option:
    """One key of an option group: its type and range, and what it means on the chip."""

    group: str
    key: str
    types: tuple[type, ...]
    low: int | None = None
    high: int | None = None
    choices: tuple[Any, ...] = ()


INT31 = 2**31 - 1
_OPTIONS = [
    Option("runtime", "run_mode", (int,), choices=(0, 1)),
    Option("runtime", "device_sched_mode", (int,), 0, 3),
    Option("runtime", "stitch_function_max_num", (int,), 1, 1024),
    Option("runtime", "max_workspace_kb", (int,), 0, INT31),
    Option("runtime", "valid_shape_optimize", (int,), 0, 1),
    Option("runtime", "ready_on_host_tensors", (list, tuple)),
    Option("runtime", "device_sched_parallelism", (int,), 1, 8),
    Option("runtime", "launch_sched_aicpu_num", (int,), 1, 7),
    Option("runtime", "launch_early_mode", (int,), 0, 2),
    Option("host", "compile_stage", (int,), 0, 5),
    Option("host", "compile_monitor_enable", (int,), 0, 2),
    Option("host", "compile_monitor_print_interval", (int,), 0, INT31),
    Option("host", "compile_timeout", (int,), 0, INT31),
    Option("host", "compile_timeout_stage", (int,), 0, INT31),
    Option("codegen", "support_dynamic_aligned", (bool,)),
    Option("codegen", "soc_version", (str,)),
    Option("codegen", "enable_pmu_trace", (bool,)),
    Option("codegen", "vf_options", (str,)),
    Option("codegen", "vf_compiler", (bool,)),
    Option("pass", "vec_nbuffer_setting", (dict,)),
    Option("pass", "cube_l1_reuse_setting", (dict,)),
    Option("pass", "cube_nbuffer_setting", (dict,)),
    Option("pass", "sg_set_scope", (int, tuple, list), -1, INT31),
    Option("pass", "sg_set_ooo_scope", (int,), -1, 100000),
    Option("pass", "ooo_sched_mode", (str,), choices=("", "GAPMIN", "HLF")),
    Option("pass", "auto_mix_partition", (int,), 0, 1),
    Option("pass", "sg_set_tunevf_mode", (int,), 0, 2),
    Option("pass", "enable_slice", (bool, int)),
    Option("pass", "pg_lower_bound", (int,), 0, INT31),
    Option("pass", "pg_parallel_lower_bound", (int,), 0, INT31),
    Option("pass", "mg_copyin_upper_bound", (int,), 0, INT31),
    Option("pass", "mg_vec_parallel_lb", (int,), 1, 48),
    Option("pass", "copyout_resolve_coalescing", (int,), 0, 1000000),
    Option("pass", "pg_partition_algorithm", (str,), choices=("Iso", "OspSarkar", "OspBsp")),
    Option("verify", "enable_pass_verify", (bool,)),
    Option("verify", "pass_verify_save_tensor", (bool,)),
    Option("verify", "pass_verify_save_tensor_dir", (str,)),
    Option("verify", "pass_verify_pass_filter", (list, tuple)),
    Option("verify", "pass_verify_error_tol", (list, tuple)),
    Option("debug", "compile_debug_mode", (int,), 0, 2),
    Option("debug", "runtime_debug_mode", (int,), 0, 4),
    Option("debug", "dump_pass_graph", (list, tuple)),
    Option("operation", "combine_axis", (bool,)),
]
OPTIONS: dict[str, dict[str, Option]] = {}
for _option in _OPTIONS:
    OPTIONS.setdefault(_option.group, {})[_option.key] = _option

# Keys of older toolkits: their kernels still run, so they are noted and have no effect.
LEGACY = frozenset(
    {
        "stitch_cfgcache_size",
        "stitch_function_inner_memory",
        "stitch_function_outcast_memory",
        "stitch_function_num_initial",
        "stitch_function_num_step",
        "stitch_function_size",
        "triple_stream_sched",
        "cfgcache_device_task_num",
        "cfgcache_root_task_num",
        "cfgcache_leaf_task_num",
        "nbuffer_merge_mode",
        "cube_l1_reuse_mode",
        "cube_nbuffer_mode",
        "vec_nbuffer_mode",
        "pg_skip_partition",
        "pg_upper_bound",
    }
)


def check_options(group: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of one group, each key known and each value in range."""
    known = OPTIONS[group]
    checked: dict[str, Any] = {}
    for key, value in options.items():
        if key in LEGACY and key not in known:
            text = f"option {group}.{key} belongs to an older toolkit and is ignored"
            warn(PyptoNote, text, place.here())
            continue
        if key not in known:
            close = nearest(key, list(known))
            raise error(
                TypeError if group != "runtime" else ValueError,
                f"key: {group}.{key} does not exist (unexpected keyword argument '{key}')"
                + (f"; did you mean '{close}'?" if close else ""),
                fix=f"use one of {', '.join(known)}",
            )
        checked[key] = _check_value(known[key], value)
        if isinstance(value, dict):
            _check_keys(f"{group}.{key}", value)
    return checked


def _check_keys(name: str, setting: Mapping[Any, Any]) -> None:
    """A setting per group of functions is keyed by numbers, or by names of functions and labels."""
    if any(isinstance(k, int) for k in setting) and any(isinstance(k, str) for k in setting):
        raise error(
            ValueError,
            f"Option: {name} mixes int keys with names in one dict: {list(setting)}",
            fix='use names throughout: {"DEFAULT": 2, "func1_0": 4}',
        )


def _check_value(option: Option, value: Any) -> Any:
    name = f"{option.group}.{option.key}"
    if hasattr(value, "value") and not isinstance(value, int):
        value = value.value
    wanted = " or ".join(t.__name__ for t in option.types)
    wrong_bool = isinstance(value, bool) and bool not in option.types and int in option.types
    if not isinstance(value, option.types) or wrong_bool:
        raise error(
            TypeError,
            f"Option: {name} takes {wanted}, got {type(value).__name__} ({value!r})",
            fix=f"give {wanted}",
        )
    out_of_range = isinstance(value, int) and (
        (option.low is not None and value < option.low)
        or (option.high is not None and value > option.high)
    )
    if out_of_range or (option.choices and value not in option.choices):
        allowed = (
            f"one of {list(option.choices)}" if option.choices else f"{option.low}..{option.high}"
        )
        raise error(
            ValueError,
            f"CHECK FAILED. Option: {name}, its value doesn't within the value range: {value!r} is "
            f"not {allowed}",
            fix=f"give a value of {allowed}",
        )
    return value


def check_run_mode(value: Any) -> RunMode:
    """The run mode that an option names."""
    if isinstance(value, bool) or value not in (0, 1):
        raise error(
            RuntimeError,
            f"Invalid run mode, run mode must be RunMode.NPU or RunMode.SIM, got {value!r}.",
            fix='runtime_options={"run_mode": pypto.RunMode.NPU}',
        )
    return RunMode(value)


def vec_tile(shapes: tuple[Any, ...]) -> tuple[int, ...]:
    """The entries of a vector tile as ints."""
    if len(shapes) == 1 and isinstance(shapes[0], (list, tuple)):
        shapes = tuple(shapes[0])
    tile = tuple(_tile_int(s, "tile shape") for s in shapes)
    if not 1 <= len(tile) <= 5 or any(t < 1 for t in tile):
        raise error(
            ValueError,
            f"set_vec_tile_shapes() takes 1 to 5 entries, each at least 1, got {list(tile)}",
            code="F0000C",
            fix="give one positive entry per axis, such as `pypto.set_vec_tile_shapes(32, 64)`",
        )
    return tile


def cube_tile(m: Any, k: Any, n: Any, enable_split_k: bool = False) -> CubeTile:
    """The entries of a cube tile; a k of two entries repeats its last."""
    sizes = []
    for name, given, counts in (("m", m, (2,)), ("k", k, (2, 3)), ("n", n, (2,))):
        if not isinstance(given, (list, tuple)) or len(given) not in counts:
            amount = len(given) if isinstance(given, (list, tuple)) else 1
            expected = "2 or 3" if len(counts) > 1 else "2"
            raise error(
                ValueError,
                f"{name} must have exactly {expected} elements, got {amount}",
                fix=f"{name}=[L0, L1], such as [128, 128]",
            )
        sizes.append(tuple(_tile_int(s, "tile shape") for s in given))
    if len(sizes[1]) == 2:
        sizes[1] = (*sizes[1], sizes[1][1])
    return CubeTile(sizes[0], sizes[1], sizes[2], bool(enable_split_k))


def _tile_int(x: Any, what: str) -> int:
    if isinstance(x, SymbolicScalar):
        if x.is_concrete():
            return x.concrete()
        raise error(
            ValueError,
            f"Not concrete value: {what} must be int; `{x}` is symbolic",
            code="F21004",
            fix="use a module-level constant or an int argument of the kernel",
        )
    if not hasattr(x, "__index__") or isinstance(x, bool):
        raise error(
            TypeError,
            f"{what} takes ints, got {type(x).__name__}",
            fix="give ints, such as `pypto.set_vec_tile_shapes(32, 64)`",
        )
    return int(x)


# --- what is in force ----------------------------------------------------------------------------


class _State(threading.local):
    settings = Settings()


_state = _State()


def settings() -> Settings:
    """The settings in force in this thread."""
    return _state.settings


def use(new: Settings) -> None:
    """Put settings in force."""
    _state.settings = new


def change(**fields: Any) -> None:
    """Put the settings with some fields changed in force."""
    _state.settings = replace(_state.settings, **fields)


def set_group(group: str, given: Mapping[str, Any]) -> None:
    """Add checked options of one group to the settings."""
    checked = check_options(group, {k: v for k, v in given.items() if v is not None})
    merged = dict(_state.settings.options)
    merged.update({f"{group}.{key}": value for key, value in checked.items()})
    change(options=merged)


def get_group(group: str) -> dict[str, Any]:
    """The options of one group that were set."""
    prefix = f"{group}."
    found = _state.settings.options.items()
    return {k[len(prefix) :]: v for k, v in found if k.startswith(prefix)}


@contextmanager
def scope() -> Iterator[None]:
    """Undo at the end what is set inside."""
    saved = _state.settings
    try:
        yield
    finally:
        _state.settings = saved


# --- public setters and getters ------------------------------------------------------------------

# In force where a setter was called wrongly: then no tile shape is missing besides.
_SOME_VEC = (1,)
_SOME_CUBE = CubeTile((1, 1), (1, 1, 1), (1, 1))


@place.boundary
def set_vec_tile_shapes(*shapes: Any) -> None:
    """Set the tile of vector ops from here on: one entry per axis, 1 to 5 ints.

    It holds until the end of the `pypto.loop` body or symbolic branch in which it is set.
    Errors: ValueError F21004 for symbolic entries, F0000C for entries below 1.
    Source: the tile settings of the language.
    """
    attempt(lambda: change(vec=vec_tile(shapes)), shapes, lambda: change(vec=_SOME_VEC))


def get_vec_tile_shapes() -> list[int]:
    """The vector tile in force, empty if none was set."""
    return list(_state.settings.vec)


@place.boundary
@known_keywords
def set_cube_tile_shapes(m: Any, k: Any, n: Any, enable_split_k: bool = False) -> None:
    """Set the tile of matmuls from here on: ``[L0, L1]`` for m, k and n.

    A third entry of k is the L1 tile of the second operand.
    Errors: ValueError F00002 for other entry counts, F21004 for symbolic entries.
    Source: the tile settings of the language.
    """
    attempt(
        lambda: change(cube=cube_tile(m, k, n, enable_split_k)),
        (m, k, n),
        lambda: change(cube=_SOME_CUBE),
    )


def get_cube_tile_shapes() -> tuple[list[int], list[int], list[int], bool] | None:
    """The cube tile in force as (m, k, n, enable_split_k); k has three entries; None if not set."""
    tile = _state.settings.cube
    if tile is None:
        return None
    return list(tile.m), list(tile.k), list(tile.n), tile.enable_split_k


@place.boundary
@known_keywords
def set_conv_tile_shapes(l1: Any, l0: Any = None) -> None:
    """Set the tile of convolutions from here on."""
    change(conv=(l1, l0))


def get_conv_tile_shapes() -> Any:
    """The convolution tile in force, None if not set."""
    return _state.settings.conv


@place.boundary
@known_keywords
def set_matrix_size(size: Any) -> None:
    """Say the ``[m, k, n]`` of a matmul whose NZ operand was reshaped."""
    change(matrix_size=tuple(_tile_int(s, "matrix size") for s in size))


@place.boundary
@known_keywords
def set_semantic_label(label: str) -> None:
    """Name the ops from here on; an empty label ends it.

    Errors: ValueError F00002 for labels of the form ``func1_2``, which name functions.
    Source: the labels of the language.
    """
    if not isinstance(label, str):
        raise error(
            TypeError,
            f"a label is a string, got {type(label).__name__}",
            fix='pypto.set_semantic_label("attention")',
        )
    if re.fullmatch(r"func\d+_\d+", label):
        raise error(
            ValueError,
            f"label {label!r} has the form of a function's name",
            fix="take another name",
        )
    change(label=label)


def _setter(group: str) -> Any:
    @place.boundary
    def set_options(**given: Any) -> None:
        attempt(lambda: set_group(group, given), given, lambda: None)

    set_options.__name__ = set_options.__qualname__ = f"set_{group}_options"
    set_options.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=None) for k in OPTIONS[group]]
    )
    set_options.__doc__ = f"""Set {group} options from here on; None leaves one as it is.

    No option changes a value.  Keys: {", ".join(OPTIONS[group])}.
    Errors: TypeError F00001 for unknown keys, ValueError F00002 for values out of range.
    Source: the options of the language.
    """
    return set_options


def _getter(group: str) -> Any:
    def get_options() -> dict[str, Any]:
        return get_group(group)

    get_options.__name__ = get_options.__qualname__ = f"get_{group}_options"
    get_options.__doc__ = f"The {group} options that were set."
    return get_options


set_pass_options, get_pass_options = _setter("pass"), _getter("pass")
set_host_options, get_host_options = _setter("host"), _getter("host")
set_codegen_options, get_codegen_options = _setter("codegen"), _getter("codegen")
set_verify_options, get_verify_options = _setter("verify"), _getter("verify")
set_debug_options, get_debug_options = _setter("debug"), _getter("debug")
set_operation_options, get_operation_options = _setter("operation"), _getter("operation")


@place.boundary
def set_options(**groups: Any) -> None:
    """Set several groups at once: ``set_options(pass_options={...}, vec_tile_shapes=[32, 64])``.

    Errors: as the setter of each group.  Source: the options of the language.
    """
    _apply(groups)


def _apply(groups: Mapping[str, Any]) -> None:
    for name, given in groups.items():
        if given is None or name == "name":
            continue
        if name == "vec_tile_shapes":
            change(vec=vec_tile(tuple(given)))
        elif name == "cube_tile_shapes":
            change(cube=given if isinstance(given, CubeTile) else cube_tile(*given))
        elif name == "conv_tile_shapes":
            change(conv=given)
        elif name == "matrix_size":
            set_matrix_size(given)
        elif name.endswith("_options") and name[: -len("_options")] in OPTIONS:
            set_group(name[: -len("_options")], given)
        else:
            known = [f"{g}_options" for g in OPTIONS] + ["vec_tile_shapes", "cube_tile_shapes"]
            close = nearest(name, known)
            raise error(
                TypeError,
                f"unexpected keyword argument '{name}'"
                + (f"; did you mean '{close}'?" if close else ""),
                fix=f"use one of {', '.join(known)}",
            )


def reset_options() -> None:
    """Undo everything that was set in this thread."""
    _state.settings = Settings()


class options(ContextDecorator):
    """Settings for a stretch of host code: ``with pypto.options(pass_options={...}):`` or as a
    decorator.

    Errors: as the setter of each group, on entering.  Source: the options of the language.
    """

    def __init__(self, name: str = "", **groups: Any) -> None:
        self.name = name
        self.groups = groups
        self._saved: list[Settings] = []

    @place.boundary
    def __enter__(self) -> options:
        self._saved.append(_state.settings)
        try:
            _apply(self.groups)
        except BaseException:
            _state.settings = self._saved.pop()
            raise
        return self

    def __exit__(self, *exception: Any) -> None:
        _state.settings = self._saved.pop()
