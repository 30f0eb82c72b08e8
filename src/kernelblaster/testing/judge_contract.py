"""Contract that every judge must fulfil for a search, as a test class to inherit from. (A judge verifies and
times candidates.)

A subclass provides a fixture `judge` for the emulated device. A search must not rely on anything that is not
asserted here.
"""

from kernelblaster.errors import BadTask
from kernelblaster.judge.protocol import Judge
from kernelblaster.records import Candidate, Incorrect, Profile, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.tasks.catalog import load_task

SOURCE = """
__global__ void relu(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) out[i] = RESULT;
}
extern "C" void launch_gpu_implementation(PARAMETERS, cudaStream_t stream) {
  int64_t n = (int64_t)COUNT;
  relu<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(out, x, n);
}
"""


def task() -> Task:
    """Returns the task that all candidates of this suite implement: an elementwise ReLU."""
    return load_task("core/level1/relu")


def candidate(result: str) -> Candidate:
    """Returns a CUDA source for `task()` with a kernel that writes the C expression `result` (in terms of
    `x[i]`) to each output element; the result need not be right."""
    signature = task().signature
    parameters = ", ".join(
        [f"float* {signature.outputs[0].name}", f"const float* {signature.inputs[0].name}"]
        + [f"int64_t {size.name}" for size in signature.sizes]
    )
    count = " * ".join(size.name for size in signature.sizes)
    source = SOURCE.replace("RESULT", result).replace("PARAMETERS", parameters).replace("COUNT", count)
    return Candidate(source=source)


RIGHT = candidate("x[i] < 0.0f ? 0.0f : x[i]")  # NaN stays NaN, as in PyTorch
WRONG = candidate("x[i]")
BROKEN = candidate("x[i")
SLOW = candidate("x[i] < 0.0f ? 0.0f : x[i] + x[(i * 33) % n] * 0.0f")  # a second load, from all over memory


class JudgeContract:
    """Tests that every judge must pass; a subclass provides the fixture `judge`."""

    def test_verdicts_come_in_the_order_of_the_jobs(self, judge: Judge) -> None:
        jobs = [(task(), one) for one in (WRONG, RIGHT, BROKEN, WRONG)]
        evaluations = list(judge.evaluate_many(jobs))
        assert [e.candidate for e in evaluations] == [one.digest for _, one in jobs]
        kinds = [e.outcome.kind for e in evaluations]
        assert kinds[0] == kinds[3] == "Incorrect" and kinds[2] == "CompileFailed"
        assert isinstance(evaluations[1].outcome, CORRECT) and evaluations[1].timing is not None
        assert evaluations[1].device == judge.device.name

    def test_only_what_is_right_is_profiled(self, judge: Judge) -> None:
        profile, outcome = judge.profile(task(), [RIGHT, WRONG], depth="quick")
        assert isinstance(profile, Profile) and "relu" in profile.kernels[0].name
        assert isinstance(outcome, Incorrect)

    def test_estimates_need_no_correct_candidate(self, judge: Judge) -> None:
        right, wrong, broken, slow = judge.estimate(task(), [RIGHT, WRONG, BROKEN, SLOW])
        assert right is not None and wrong is not None and broken is None
        assert slow is not None and slow > 1.5 * right
        [evaluation] = judge.evaluate_many([(task(), RIGHT)])
        assert evaluation.timing is not None
        if evaluation.timing.modelled:
            assert abs(right / evaluation.timing.candidate_us - 1) < 0.02

    def test_a_confirmation_leaves_a_note_and_no_second_one(self, judge: Judge) -> None:
        [evaluation] = judge.evaluate_many([(task(), RIGHT)])
        confirmed = judge.confirmed(task(), RIGHT, evaluation)
        assert confirmed.outcome == evaluation.outcome and confirmed.verification is not None
        assert sum("memory order" in note for note in confirmed.verification.notes) == 1
        assert judge.confirmed(task(), RIGHT, confirmed) == confirmed

    def test_what_failed_is_not_confirmed(self, judge: Judge) -> None:
        [evaluation] = judge.evaluate_many([(task(), WRONG)])
        assert judge.confirmed(task(), WRONG, evaluation) == evaluation

    def test_the_floor_is_known_and_an_unfit_task_refused(self, judge: Judge) -> None:
        assert judge.prepare(task())[1].bytes == task().primary.total_bytes(task().signature)
        constant = task().source.replace("torch.relu(x)", "torch.relu(x) * 0")
        unfit = task().model_copy(update={"source": constant, "name": "constant"})
        try:
            judge.prepare(unfit)
        except BadTask as error:
            assert "constant" in str(error)
        else:
            raise AssertionError("a task whose output is constant was taken")
