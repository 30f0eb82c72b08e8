"""Files as users have them: each is a task, or is refused in one sentence that says what to do."""

from pathlib import Path

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.judge.emulate import LARGEST_BYTES
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.floor import floor_of
from kernelblaster.tasks.header import declaration

USERS = Path(__file__).parent / "data" / "users"
# The type, and a part of the declaration of the launch function.
TASKS = {
    "literal_sizes.py": ("float32", "const float* x,"),
    "mlp_literals.py": ("float32", "const float* fc2_bias,"),
    "bfloat16_norm.py": ("bfloat16", "const __nv_bfloat16* x,"),
    "half_inputs_float_parameters.py": ("float16", "const __half* proj_weight,"),
    "mixed_precision_rms.py": ("bfloat16", "const float* weight,"),
    "double_precision.py": ("float64", "double* out,"),
    "several_outputs.py": ("float32", "float* out0, float* out1, float* out2,"),
    "dict_output.py": ("float32", "float* out0, float* out1,"),
    "named_tuple_output.py": ("float32", "float* out0, float* out1,"),
    "buffers.py": ("float32", "const float* window, const float* scale,"),
    "keyword_arguments.py": ("float32", "const float* x, const bool* mask,"),
    "list_of_inputs.py": ("float32", "const float* parts_0, const float* parts_1, const float* parts_2,"),
    "nested_modules.py": ("float32", "const float* blocks_1_mlp_down_bias,"),
    "eval_batch_norm.py": ("float32", "const float* bn_running_var,"),
    "embedding.py": ("float32", "const int64_t* ids,"),
    "attention_block.py": ("float32", "const float* bias,"),
    "small_cnn.py": ("float32", "const float* conv2_weight,"),
    "lstm.py": ("float32", "float* out0, float* out1, float* out2,"),
    "loss.py": ("float32", "const int64_t* target,"),
    "functional_style.py": ("float32", "const float* w1, const float* w2,"),
    "einops_like.py": ("float32", "const float* images,"),
    "in_place.py": ("float32", "const float* x,"),
    "subclass.py": ("float32", "const float* weight,"),
    "dataclass_config.py": ("float32", "const float* inner_weight,"),
    "script_with_main.py": ("float32", "const float* layers_0_weight,"),
    "project/model.py": ("float32", "const float* scale_gain,"),
    "windows_umlauts.py": ("float32", "const float* gr__e,"),
    "names_a_gpu.py": ("float32", "const float* offset,"),
    "values_in_constructor.py": ("float32", "const float* base,"),
    "rotary.py": ("float32", "const float* cos, const float* sin,"),
    "groupnorm_silu.py": ("float32", "const float* block_0_weight,"),
    "int8_dequant.py": ("float16", "const int8_t* qweight, const __half* scales,"),
    "message_passing.py": ("float32", "const int64_t* src, const int64_t* dst,"),
    "moe_router.py": ("float32", "float* out0, int64_t* out1,"),
    "compiled_forward.py": ("float32", "const float* scale,"),
    "dropout.py": ("float32", "const float* residual,"),
    "optional_mask.py": ("float32", "const float* q, const float* k, const float* v,"),
    "rnn_loop.py": ("float32", "float* out,"),
    "tied_weights.py": ("float32", "const float* embed_weight,"),
    "scripted.py": ("float32", "const float* x,"),
    "weight_norm.py": ("float32", "const float* proj_parametrizations_weight_original0,"),
    "prints_and_counts.py": ("float32", "const float* x,"),
    "default_dtype.py": ("bfloat16", "const __nv_bfloat16* fc_weight,"),
}
REFUSED = {
    "two_models.py": "Model is defined on lines 6 and 11; rename all but the one",
    "data_dependent.py": "data_dependent.py:8: forward() reads the values of a tensor",
    "selects_rows.py": "selects_rows.py:9: forward() makes a tensor whose size depends on values",
    "no_inputs.py": 'forward takes x, skip: give example inputs with --inputs "randn(...), randn(...)"',
    "several_classes.py": "classes Encoder, Decoder; say which one is meant",
    "complex_numbers.py": "tensors of type complex64 are not supported; keep those out",
    "autocast.py": "forward() uses torch.autocast, whose types depend on the device; leave it out, and cast",
    "sparse_product.py": "input 0 is a sparse tensor; give its parts as inputs of their own",
    "returns_a_number.py": "it must return tensors, alone or in tuples, lists and dicts. Leave the rest out",
}


def test_the_tables_name_every_file() -> None:
    files = {str(file.relative_to(USERS)) for file in USERS.rglob("*.py")}
    parts = {"project/__init__.py", "project/layers.py", "project/activations.py"}
    assert files - parts == {*TASKS, *REFUSED}


@pytest.mark.parametrize("name", TASKS)
def test_a_users_file_is_a_task(name: str) -> None:
    dtype, declared = TASKS[name]
    task = load_task(str(USERS / name))
    assert task.dtype == dtype
    assert declared in declaration(task.signature, "t")
    assert task.small is not None and task.small.total_bytes(task.signature) <= LARGEST_BYTES
    assert task.small.total_bytes(task.signature) < task.primary.total_bytes(task.signature)
    assert task.held_out


@pytest.mark.parametrize("name", REFUSED)
def test_a_users_file_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(BadTask) as error:
        load_task(str(USERS / name))
    assert REFUSED[name] in str(error.value)
    assert str(error.value).startswith(str(USERS / name)) and "\n" not in str(error.value)


def test_a_type_that_is_asked_for_wins() -> None:
    task = load_task(str(USERS / "mixed_precision_rms.py"), "float16")
    assert (task.dtype, task.cast) == ("float16", "float16")
    assert {tensor.dtype for tensor in task.signature.tensors} == {"float16"}


def test_inputs_and_arguments_are_taken_as_they_are_typed() -> None:
    named = f"{USERS / 'no_inputs.py'}:Upsample"
    task = load_task(named, inputs="randn(4, 8, 60, 60), skip=randn(4, 8, 120, 120)", init="channels=8")
    assert task.primary.shape(task.signature.input_tensors[1]) == (4, 8, 120, 120)
    with pytest.raises(BadTask, match="is not a list of Python values"):
        load_task(named, inputs="randn(4")


def test_one_class_of_several_is_named() -> None:
    assert load_task(f"{USERS / 'several_classes.py'}:Encoder").notes == ("the module is Encoder",)


def test_a_class_is_imported_from_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(USERS)
    task = load_task("project.layers:Scale", inputs="randn(4000, 512)", init="512")
    assert [t.name for t in task.signature.parameters] == ["gain"]
    monkeypatch.chdir("/")
    again = load_task("core/level1/relu").model_copy(update={"source": task.source, "path": task.path})
    assert floor_of(again).bytes  # the text is whole without the folder


def test_an_embedding_is_read_where_it_is_looked_up() -> None:
    task = load_task(str(USERS / "embedding.py"))
    table = task.primary.bytes(next(t for t in task.signature.parameters if t.name == "tokens_weight"))
    floor = floor_of(task)
    looked_up = 8 * 1024 * 768 * 4
    assert table == 50257 * 768 * 4
    assert 1.9 * looked_up < floor.bytes < 2.2 * looked_up  # and as much is written
