"""Proofs: a verdict with everything that is needed to repeat it, in one JSON document.

    proof = prove(task, candidate, judge)                              # judges the candidate anew
    Path("proof.json").write_text(proof.model_dump_json(indent=1))
    repeated = repeat(read_proof(Path("proof.json")), judge)           # perhaps on another machine
    print(repeated.holds, repeated.differences)

The seed from which inputs are drawn is secret while a candidate is judged. Afterwards it is part of the
proof, so that the same inputs can be drawn elsewhere."""

import hashlib
import json
import platform
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, TypeAdapter, ValidationError

import kernelblaster
from kernelblaster import cache
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.case import Case
from kernelblaster.judge.cases import SecretDraw
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.outcome import CORRECT
from kernelblaster.records.record import Record
from kernelblaster.scratch import Scratch
from kernelblaster.strict_json import InvalidJson, first_problem, read_json
from kernelblaster.tasks.catalog import load_task
from kernelblaster.verify import speedups_overlap

LARGER = 4  # times a task's largest workload: the most that a proof may ask for
MOST_RUNS = 1000  # of one case
CLOSE = 1e-3  # relative difference of two errors that count as the same
_cases: TypeAdapter[list[Case]] = TypeAdapter(list[Case])


class Proof(Record):
    """A verdict in a form in which others can repeat it, written to a file as JSON; `format` is the version
    of that form.

    The task: `task_name`, the text `task_source` of its file, the file's ending `task_suffix`, and
    `task_digest`, a hash of the task as derived from its source. The candidate: `candidate_source`, and the
    values `candidate_defines` of its tunable constants. `cases` are the sizes and kinds of values on which
    the candidate was compared with the reference. `evaluation` has the verdict, the seed, every comparison
    and every timing sample. `software` maps tools to versions, and `judge` to a hash of the judge's source.
    `checked` and `unchecked` say in words what was checked and what was not.
    """

    format: Literal[1] = 1
    task_name: str
    task_source: str
    task_digest: str
    task_suffix: Literal[".py", ".cu"]
    candidate_source: str
    candidate_defines: tuple[tuple[Annotated[str, Field(pattern=r"^[A-Za-z_]\w{0,99}$")], int], ...]
    software: dict[str, str]
    cases: list[dict[str, Any]]
    evaluation: Evaluation
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]


class Repeated(Record):
    """The result of judging a proof's candidate again on the same inputs. `then` is the evaluation in the
    proof, `now` the new one. `correct`: the candidate is correct now. `speedup_holds`: the confidence
    intervals of both speedups overlap; None if the device is another one or one of the verdicts is a failure.
    `differences` names, in words, the comparisons whose error changed; a deterministic kernel on the same
    device has none."""

    then: Evaluation
    now: Evaluation
    correct: bool
    speedup_holds: bool | None
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if the proof was reproduced: the candidate is still correct, its speedup does not contradict
        the old one, and every comparison with the reference gave the same error as before."""
        return self.correct and self.speedup_holds is not False and not self.differences


def prove(task: Task, candidate: Candidate, judge: DeviceJudge) -> Proof:
    """Compiles and judges a candidate for `task` by `judge`, without the cache, and returns the verdict with
    all that is needed to repeat it. Raises KernelBlasterError if judging ended before inputs were drawn, for
    example because the candidate does not compile."""
    with cache.afresh("candidate"):
        evaluation = judge.evaluate(task, candidate)
    if evaluation.seed is None:
        raise KernelBlasterError(f"{task.name}: no verdict to prove: {evaluation.outcome.kind}.")
    notes = evaluation.verification.notes if evaluation.verification else ()
    return Proof(
        task_name=task.name,
        task_source=task.source,
        task_digest=task.digest,
        task_suffix=".cu" if Path(task.path).suffix == ".cu" else ".py",
        candidate_source=candidate.source,
        candidate_defines=candidate.defines,
        software=_software(),
        cases=_cases.dump_python(list(judge.cases(task, evaluation.seed)), mode="json"),
        evaluation=evaluation,
        checked=_checked(evaluation, judge),
        unchecked=tuple(note for note in notes if "not checked" in note or "skipped" in note),
    )


def read_proof(path: Path) -> Proof:
    """Returns the proof in the JSON file `path`. Raises KernelBlasterError if the file cannot be read, or is
    no proof of the format that this version writes."""
    try:
        proof = Proof.model_validate_json(json.dumps(read_json(path)))
        _cases.validate_python(proof.cases)
        return proof
    except OSError as error:
        raise KernelBlasterError(f"{path}: cannot be read: {error.strerror}.") from error
    except InvalidJson as error:
        raise KernelBlasterError(f"{path}: not a proof: it {error}.") from error
    except ValidationError as error:
        raise KernelBlasterError(
            f"{path}: not a proof of this version: {first_problem(error)[:300]}"
        ) from error


def repeat(proof: Proof, judge: DeviceJudge) -> Repeated:
    """Judges a proof's candidate again on the inputs of the proof, and returns both verdicts and how they
    differ. Raises KernelBlasterError in three cases: the proof has no seed; one of its inputs is more than
    four times (LARGER) as large as the task's largest workload; or this version derives another task from the
    proof's source."""
    seed = proof.evaluation.seed
    if seed is None:
        raise KernelBlasterError("the proof names no seed, so nothing can be repeated.")
    candidate = Candidate(source=proof.candidate_source, defines=proof.candidate_defines)
    with Scratch() as folder:
        file = folder / f"task{proof.task_suffix}"
        file.write_text(proof.task_source)
        task = load_task(str(file)).model_copy(update={"name": proof.task_name})
        if task.digest != proof.task_digest:
            raise KernelBlasterError(
                f"{proof.task_name}: this version derives another task from the proof's source."
            )
        cases = _within_plan(task, _cases.validate_python(proof.cases))
        with cache.afresh("candidate"):
            now = judge.evaluate(task, candidate, SecretDraw(seed, cases))
    then = proof.evaluation
    correct = isinstance(now.outcome, CORRECT)
    holds = None
    if isinstance(then.outcome, CORRECT) and isinstance(now.outcome, CORRECT) and then.device == now.device:
        holds = speedups_overlap(then.outcome.speedup, now.outcome.speedup)
    return Repeated(
        then=then, now=now, correct=correct, speedup_holds=holds, differences=_differences(then, now)
    )


def _within_plan(task: Task, cases: list[Case]) -> tuple[Case, ...]:
    """The proof's verification cases (inputs by size and distribution; they come from an untrusted file),
    unchanged. Raises KernelBlasterError if their sizes are not the task's, if one is larger than LARGER times
    the task's largest workload, or if one runs more than MOST_RUNS times."""
    largest = LARGER * max(workload.total_bytes(task.signature) for workload in task.workloads)
    names = {size.name for size in task.signature.sizes}
    for case in cases:
        sizes = case.workload.sizes
        if set(sizes) != names or min(sizes.values(), default=1) < 1:
            raise KernelBlasterError(f"{task.name}: the proof has a case with other sizes than the task's.")
        if case.workload.total_bytes(task.signature) > largest or case.runs > MOST_RUNS:
            raise KernelBlasterError(
                f"{task.name}: the proof has a case that is larger than any of the task."
            )
    return tuple(cases)


def _differences(then: Evaluation, now: Evaluation) -> tuple[str, ...]:
    """Sentences on comparisons whose RMS error changed by more than CLOSE (relative). Empty unless both
    evaluations are on the same device and the candidate was deterministic."""
    one, other = then.verification, now.verification
    if one is None or other is None or then.device != now.device or not one.deterministic:
        return ()
    changed: list[str] = []
    for a, b in zip(one.cases, other.cases, strict=False):
        title = f"{a.workload}/{a.distribution}/{a.output}"
        if (a.workload, a.distribution, a.output) != (b.workload, b.distribution, b.output):
            return (*changed, f"{title}: the plan was another from here on")
        if a.candidate and b.candidate and abs(a.candidate.rms - b.candidate.rms) > CLOSE * a.candidate.rms:
            changed.append(f"{title}: rms error {b.candidate.rms:.3g}, then {a.candidate.rms:.3g}")
    return tuple(changed)


def _software() -> dict[str, str]:
    """The versions of the tools by name; "judge" is a hash of the judge's source files."""
    here = {
        "kernelblaster": kernelblaster.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "nvcc": toolchain().version,
    }
    source = hashlib.sha256()
    for file in sorted(Path(kernelblaster.__file__).parent.glob("judge/*.py")):
        source.update(file.read_bytes())
    return here | {"judge": source.hexdigest()[:16]}


def _checked(evaluation: Evaluation, judge: DeviceJudge) -> tuple[str, ...]:
    """What was checked about the candidate, in sentences for readers of a proof: how calls were isolated, how
    many comparisons and timed pairs were made, which tools found nothing."""
    words = [
        "host code recorded without a GPU, three times for each call; launches replayed by the judge's own"
    ]
    verification, timing = evaluation.verification, evaluation.timing
    if verification is not None:
        words.append(f"{len(verification.cases)} comparisons with float64 in {verification.calls} calls")
        words += [note for note in verification.notes if note.startswith("memory order: checked")]
    if timing is not None and not timing.modelled:
        words.append(f"{timing.samples} timed pairs, every output compared")
    if judge.options.sanitize:
        words.append("compute-sanitizer: memory, races, barriers")
    return tuple(words)
