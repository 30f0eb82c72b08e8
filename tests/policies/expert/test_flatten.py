"""Loops become one where all addresses allow it, and stay apart where one does not."""

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.flatten import flattened
from kernelblaster.policies.expert.index import text
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.lower import initial_plan


def flat(name: str) -> Kernel:
    plan = initial_plan(capture(load_task(name)))
    return flattened(plan.kernels[0], plan)


def extents(kernel: Kernel) -> tuple[list[str], list[str]]:
    return [text(a.extent) for a in kernel.axes], [text(a.extent) for a in kernel.reduced]


def test_a_tensor_that_is_reduced_as_a_whole_is_one_loop() -> None:
    assert extents(flat("core/level1/sum_all")) == ([], ["x_0 * x_1"])


def test_images_between_which_another_channel_lies_stay_apart_from_their_pixels() -> None:
    assert extents(flat("core/level1/batch_norm")) == (["x_1"], ["x_0", "x_2 * x_3"])


def test_a_loop_that_an_operand_uses_alone_stays() -> None:
    axes, reduced = extents(flat("core/level1/group_norm"))  # the scale of a channel needs its number
    assert (axes, reduced) == (["x_0", "8"], ["x_1 / 8", "x_2 * x_3"])


def test_a_transposed_read_keeps_both_loops() -> None:
    assert len(flat("core/level1/transpose_last").axes) == 3
