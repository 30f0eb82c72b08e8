"""Reductions and maps after techniques: what is emitted, and where it may be."""

from functools import cache

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.combines.moments import MOMENTS
from kernelblaster.policies.expert.combines.online_softmax import ONLINE_SOFTMAX
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.row_kernel import passes, row_kernel
from kernelblaster.policies.expert.schedules.columns import Columns
from kernelblaster.policies.expert.schedules.rows import WarpRows
from kernelblaster.policies.expert.techniques import load_techniques

ROWS = ("warp_shuffle_reduction", "vectorized_memory_access", "rows_in_registers")
FEW = 8  # plans that one technique may yield, at most


@cache
def plan_of(name: str) -> Plan:
    plan = initial_plan(capture(load_task(name)))
    while (following := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = following
    return plan


def after(name: str, *techniques: str) -> Plan:
    plan = plan_of(name)
    for technique in techniques:
        plan = next(load_techniques()[technique](plan))
    return plan


def test_a_row_is_read_once_and_written_once() -> None:
    source = emit(after("core/level1/softmax", *ROWS))
    kernel = source[source.index("softmax_kernel(") : source.index('extern "C"')]
    assert kernel.count("reinterpret_cast<const Pack<float, WIDTH>*>(x") == 1
    assert "x_kept[k] = read_x(at)" in kernel
    assert "softmax_kernel<4, false>" in source  # without a loop over the rest
    assert "softmax_kernel<1, true>" in source  # at sizes that leave packs unaligned


def test_short_rows_need_no_barrier() -> None:
    plan = after("core/level1/max_rows", "warp_shuffle_reduction")
    assert isinstance(plan.kernels[0].schedule, WarpRows)
    assert "__syncthreads" not in emit(plan)


def test_stages_that_do_not_need_each_other_share_a_pass() -> None:
    kernel = plan_of("core/level1/max_with_index").kernels[0]
    assert [[stage.name for stage in group] for group in passes(kernel)] == [["best", "place"]]


def test_online_reduction_needs_one_pass() -> None:
    plan = after("core/level1/layer_norm", "warp_shuffle_reduction", "online_reduction")
    assert len(passes(plan.kernels[0])) == 1
    assert [stage.combine for stage in plan.kernels[0].stages] == [SUM, MOMENTS]
    softmax = after("core/level1/softmax", "warp_shuffle_reduction", "online_reduction")
    assert [stage.combine for stage in softmax.kernels[0].stages] == [MAX, ONLINE_SOFTMAX]


def test_a_full_reduction_is_split_and_combined() -> None:
    plan = after("core/level1/sum_all", "two_level_reduction")
    parts, combining = plan.kernels
    assert parts.reduced[0].part is not None
    assert combining.writes == ("out",)
    assert plan.elements(parts.axes) > 500


def test_the_combining_of_parts_is_not_split_once_more() -> None:
    """Parts of parts had the same names: a kernel read and wrote one buffer, and did not compile."""
    plan = after("core/level1/sum_columns", "two_level_reduction")
    technique = load_techniques()["two_level_reduction"]
    assert list(technique(plan)) == []
    assert "parts of a reduction" in technique.why_not(plan)[plan.kernels[1].name]


def test_columns_are_split_for_the_packs_that_they_are_read_in_later() -> None:
    """Else a vectorized kernel had a quarter of the blocks that were meant."""
    order = ("two_level_reduction", "vectorized_memory_access")
    first, last = (after("core/level1/sum_columns", *way).kernels[0] for way in (order, order[::-1]))
    assert first.reduced[0].part == last.reduced[0].part


def test_splitting_a_normalization_leaves_a_pointwise_kernel() -> None:
    plan = after(
        "core/level1/batch_norm", "warp_shuffle_reduction", "online_reduction", "two_level_reduction"
    )
    families = [kernel.family for kernel in plan.kernels]
    assert families == ["row_reduction", "row_reduction", "pointwise"]
    assert [axis.name for axis in plan.kernels[2].axes] == ["r0", "i1", "r3"]  # as they lie in memory


def test_stages_that_need_each_other_are_not_split() -> None:
    plan = after("core/level1/batch_norm", "warp_shuffle_reduction")
    assert list(load_techniques()["two_level_reduction"](plan)) == []


def test_many_rows_are_not_split() -> None:
    assert list(load_techniques()["two_level_reduction"](plan_of("core/level1/sum_rows"))) == []


def test_columns_are_taken_by_packs_that_lie_side_by_side() -> None:
    plan = after("core/level1/mean_middle", "vectorized_memory_access")
    assert isinstance(plan.kernels[0].schedule, Columns)
    assert "column_reduce<WARPS>" in emit(plan)


def test_broadcast_operands_are_vectorized_along_rows() -> None:
    plan = after("core/level1/broadcast_affine", "vectorized_memory_access")
    source = emit(plan)
    assert "read_offset" in source
    assert "scale[i1]" in source


def test_an_element_that_may_not_exist_is_read_only_on_its_side() -> None:
    plan = after("core/level2/rmsnorm_rotary", "warp_shuffle_reduction")
    access = row_kernel(plan.kernels[0], plan).access
    always = [load.buffer for load in access.reads if load not in access.guards]
    assert sorted(always) == ["weight", "x"]
    sides = [(load.buffer, guard.below) for load, guards in access.guards.items() for guard in guards]
    expected = [(name, below) for name in ("cos", "sin", "weight", "x") for below in (False, True)]
    assert sorted(sides) == expected


def test_a_transposed_tensor_is_turned_in_shared_memory() -> None:
    source = emit(after("core/level1/transpose_last", "transposed_staging"))
    assert "x_tile[64][65]" in source


def test_techniques_yield_few_plans_all_kernels_first() -> None:
    plan = plan_of("core/level2/cosine_logits")
    for name in (*ROWS, "unrolling", "cache_hints", "fast_math", "thread_coarsening"):
        plans = list(load_techniques()[name](plan))
        assert len(plans) <= FEW
    first = next(load_techniques()["warp_shuffle_reduction"](plan))
    rows = [kernel.schedule for kernel in first.kernels if kernel.family == "row_reduction"]
    assert rows and all(isinstance(schedule, WarpRows) or schedule.shuffles for schedule in rows)
