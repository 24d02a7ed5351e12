"""Option dictionaries, setters in a kernel, and scopes on the host.

In go options that this implementation knows, once knew or never heard of; out must come the same
numbers as without them, a note for the old ones, and for the unknown ones an error that names the
nearest key that exists.
"""

import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

DT = pypto.DT_FP32
# A key of the runtime group is looked up; the other groups are keywords of a setter.
UNKNOWN = [(TypeError, "F00001"), (ValueError, "F00002")]


def made(**options):
    """A kernel that adds one, with these options."""

    @pypto.jit(**options)
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    return k


def run(kernel):
    out = blank(16, 32)
    kernel(ramp(), out)
    assert torch.equal(out, ramp() + 1)


@pytest.mark.parametrize(
    "options",
    [
        {"runtime_options": {"device_sched_mode": 3}},
        {
            "runtime_options": {
                "stitch_function_max_num": 1024,
                "max_workspace_kb": 0,
                "valid_shape_optimize": 1,
                "ready_on_host_tensors": ["a"],
                "device_sched_parallelism": 8,
                "launch_sched_aicpu_num": 1,
                "launch_early_mode": 2,
            }
        },
        {
            "host_options": {
                "compile_monitor_enable": 0,
                "compile_monitor_print_interval": 5,
                "compile_timeout": 10,
                "compile_timeout_stage": 0,
                "compile_stage": 0,
            }
        },
        {
            "codegen_options": {
                "support_dynamic_aligned": True,
                "soc_version": "",
                "enable_pmu_trace": False,
                "vf_options": "",
            }
        },
        {
            "pass_options": {
                "vec_nbuffer_setting": {-1: 2, 0: 4},
                "cube_nbuffer_setting": {-1: 1},
                "cube_l1_reuse_setting": {-1: 4, 0: (2, "left")},
                "sg_set_scope": 3,
                "ooo_sched_mode": "GAPMIN",
                "auto_mix_partition": 1,
                "sg_set_tunevf_mode": 2,
                "enable_slice": True,
            }
        },
        {
            "pass_options": {
                "vec_nbuffer_setting": {"DEFAULT": 2, "func0_1": 4},
                "sg_set_scope": (1, True, False),
                "sg_set_ooo_scope": 7,
            }
        },
        {
            "verify_options": {
                "enable_pass_verify": False,
                "pass_verify_save_tensor": False,
                "pass_verify_save_tensor_dir": "",
                "pass_verify_pass_filter": ["x"],
                "pass_verify_error_tol": [1e-3, 1e-3],
            }
        },
        {
            "debug_options": {
                "compile_debug_mode": 2,
                "runtime_debug_mode": 0,
                "dump_pass_graph": [],
            }
        },
        {"new_ir": False, "create_new_logical_tensor": True},
        {"runtime_options": None, "pass_options": {}},
    ],
    ids=[
        "sched mode",
        "runtime",
        "host",
        "codegen",
        "pass",
        "pass by name",
        "verify",
        "debug",
        "front end",
        "empty",
    ],
)
def test_known_options_change_no_number_case126(options):
    run(made(**options))


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("runtime_options", "stitch_function_max_num", 0),
        ("runtime_options", "stitch_function_max_num", 1025),
        ("runtime_options", "device_sched_mode", 4),
        ("runtime_options", "device_sched_parallelism", 9),
        ("runtime_options", "launch_sched_aicpu_num", 0),
        ("host_options", "compile_stage", 6),
        ("host_options", "compile_timeout", -1),
        ("pass_options", "auto_mix_partition", 2),
        ("pass_options", "sg_set_scope", -2),
        ("pass_options", "ooo_sched_mode", "FASTEST"),
        ("debug_options", "runtime_debug_mode", 5),
    ],
)
def test_value_outside_its_range_case126(group, key, value):
    with refused(ValueError, key, "doesn't within the value range", code="F00002"):
        run(made(**{group: {key: value}}))


@pytest.mark.parametrize(
    ("group", "key", "value"),
    [
        ("runtime_options", "device_sched_mode", "fast"),
        ("host_options", "compile_timeout", 1.5),
        ("codegen_options", "support_dynamic_aligned", "yes"),
        ("pass_options", "vec_nbuffer_setting", [1, 2]),
        ("pass_options", "enable_slice", "no"),
    ],
)
def test_value_of_another_type_names_the_option_case126(group, key, value):
    with refused(TypeError, key, code="F00001"):
        run(made(**{group: {key: value}}))


@pytest.mark.parametrize(
    ("group", "key", "nearest"),
    [
        ("runtime_options", "device_shed_mode", "device_sched_mode"),
        ("runtime_options", "stitch_function_num", "stitch_function_max_num"),
        ("host_options", "compile_timout", "compile_timeout"),
        ("codegen_options", "support_dynamic_align", "support_dynamic_aligned"),
        ("pass_options", "vec_nbufer_setting", "vec_nbuffer_setting"),
        ("verify_options", "enable_verify", "enable_pass_verify"),
        ("debug_options", "runtime_debug", "runtime_debug_mode"),
    ],
)
def test_unknown_key_is_answered_with_the_nearest_known_one_case126(group, key, nearest):
    builtin, code = UNKNOWN[group == "runtime_options"]
    with refused(builtin, key, nearest, code=code):
        run(made(**{group: {key: 1}}))


def test_key_that_resembles_nothing_case126():
    with refused(TypeError, "nope", "enable_slice", code="F00001"):
        run(made(pass_options={"nope": 1}))


def test_mixed_kinds_of_keys_in_one_setting_case126():
    with refused(ValueError, "vec_nbuffer_setting", code="F00002"):
        run(made(pass_options={"vec_nbuffer_setting": {-1: 2, "DEFAULT": 4}}))


def test_unknown_keyword_of_the_decorator_is_pythons_error():
    with pytest.raises(TypeError, match="runtime_option"):
        made(runtime_option={"run_mode": 0})


@pytest.mark.parametrize(
    "key",
    ["stitch_cfgcache_size", "stitch_function_inner_memory", "stitch_function_outcast_memory"],
)
def test_legacy_key_is_noted_and_ignored(key):
    with pytest.warns(pypto.error.PyptoNote, match=key):
        run(made(runtime_options={key: 2700000}))


def test_options_of_the_caller_stay_as_they_are():
    options = {"run_mode": pypto.RunMode.NPU, "device_sched_mode": 1}
    passes = {"vec_nbuffer_setting": {-1: 2}}
    run(made(runtime_options=options, pass_options=passes))
    assert passes == {"vec_nbuffer_setting": {-1: 2}}
    assert options["device_sched_mode"] == 1 and options["run_mode"] == 0


def test_kernels_of_one_source_with_different_options():
    for mode in (0, 1, 0):
        run(made(runtime_options={"device_sched_mode": mode}))


def test_scope_on_the_host_case127():
    kernel = made()
    with pypto.options(name="slices", pass_options={"enable_slice": True}):
        run(kernel)
    with pypto.options(runtime_options={"device_sched_mode": 1}, vec_tile_shapes=[8, 16]):
        run(kernel)
    run(kernel)


@pypto.options(pass_options={"enable_slice": True}, vec_tile_shapes=[8, 32])
def test_scope_as_a_decorator_case127():
    run(made())


def test_scope_on_the_host_gives_its_tiles_to_the_kernel_case127():
    @pypto.jit
    def k(a: F32, out: F32):
        out[:] = a + float(sum(pypto.get_vec_tile_shapes()[:1]))

    for rows in (8, 16):
        out = blank(16, 32)
        with pypto.options(vec_tile_shapes=[rows, 32]):
            k(ramp(), out)
        assert torch.equal(out, ramp() + rows)
    with refused(ValueError, "tile shape not set", code="F21004"):
        k(ramp(), blank(16, 32))


def test_scope_is_left_when_its_body_fails_case127():
    before = pypto.get_pass_options()
    with pytest.raises(ZeroDivisionError), pypto.options(pass_options={"enable_slice": True}):
        assert pypto.get_pass_options()["enable_slice"] is True
        raise ZeroDivisionError
    assert pypto.get_pass_options() == before


def test_setters_in_a_kernel_change_no_number():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        pypto.set_cube_tile_shapes([16, 16], [16, 32, 32], [16, 16], enable_split_k=True)
        pypto.set_conv_tile_shapes([1, 1, 1, 1], [1, 1, 1])
        pypto.set_matrix_size([16, 16, 16])
        pypto.set_semantic_label("add")
        pypto.set_pass_options(sg_set_scope=1, vec_nbuffer_setting={-1: 2})
        pypto.set_host_options(compile_timeout=100)
        pypto.set_codegen_options(support_dynamic_aligned=True)
        pypto.set_verify_options(enable_pass_verify=False)
        pypto.set_debug_options(compile_debug_mode=0)
        pypto.set_options(runtime_options={"device_sched_mode": 2})
        pypto.experimental.set_operation_options(combine_axis=True)
        pypto.set_print_options(edgeitems=2, precision=3)
        assert pypto.get_pass_options()["vec_nbuffer_setting"] == {-1: 2}
        assert pypto.get_host_options()["compile_timeout"] == 100
        out[:] = a + 1.0

    try:
        run(k)
        run(k)
    finally:
        pypto.set_print_options(edgeitems=3, precision=4)


def test_getters_give_what_the_setters_took():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8, 16, 32, 64)
        assert list(pypto.get_vec_tile_shapes()) == [4, 8, 16, 32, 64]
        pypto.set_vec_tile_shapes(16, 32)
        assert list(pypto.get_vec_tile_shapes()) == [16, 32]
        pypto.set_cube_tile_shapes([16, 32], [32, 64], [48, 96])
        m, kk, n, split = pypto.get_cube_tile_shapes()
        assert (list(m), list(kk), list(n), split) == ([16, 32], [32, 64, 64], [48, 96], False)
        out[:] = a + 1.0

    run(k)


def test_every_kernel_starts_from_the_defaults():
    @pypto.jit
    def setting(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        pypto.set_pass_options(sg_set_scope=5)
        out[:] = a + 1.0

    @pypto.jit
    def without(a: F32, out: F32):
        out[:] = a + 1.0  # here

    before = pypto.get_pass_options()
    run(setting)
    assert pypto.get_pass_options() == before
    with refused(ValueError, "tile shape not set for add", code="F21004", at="here"):
        without(ramp(), blank(16, 32))


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (([16], [16, 16], [16, 16]), "m must have exactly 2 elements, got 1"),
        (([16, 16], [16, 16], [16, 16, 16]), "n must have exactly 2 elements, got 3"),
        (([16, 16], [16], [16, 16]), "k must have"),
    ],
    ids=["m", "n", "k"],
)
def test_lengths_of_the_cube_tile_lists(lists, words):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_cube_tile_shapes(*lists)  # here
        out[:] = a

    with refused(ValueError, words, code="F00002", at="here"):
        k(ramp(), blank(16, 32))


def test_reset_options_restores_the_defaults():
    before = pypto.get_host_options()
    pypto.set_options(host_options={"compile_timeout": 77})
    try:
        assert pypto.get_host_options()["compile_timeout"] == 77
    finally:
        pypto.reset_options()
    assert pypto.get_host_options() == before
    assert before.get("compile_timeout", 600) == 600


def test_setter_that_does_not_exist():
    assert not hasattr(pypto, "set_runtime_options")
