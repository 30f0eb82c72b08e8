"""The replay buffer: the steps of runs, with the evaluations on both sides of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.errors import StoreError
from kernelblaster.records import Evaluation, Step
from kernelblaster.store.run import Run, open_run, run_folders

REPLAYED = 5  # earlier runs that are looked at


@dataclass(frozen=True)
class Sample:
    """A step of the replay buffer with the evaluations before and after it. `floor_bytes` is the least
    that the task's call must move."""

    step: Step
    parent: Evaluation
    child: Evaluation
    floor_bytes: int


def samples(steps: Sequence[Step], evaluations: Mapping[str, Evaluation], floor_bytes: int) -> list[Sample]:
    """`evaluations` by the code of their candidates."""
    return [Sample(s, evaluations[s.parent], evaluations[s.child], floor_bytes) for s in steps]


def earlier_samples(run: Run, knowledge: str, architecture: str) -> list[Sample]:
    """Of the latest runs beside this one, the steps of those that taught the same knowledge base on the
    same architecture. Which ones is recorded, so that a run that goes on sees the same."""
    root = run.folder.parent
    names = [folder.name for folder in run_folders(root) if folder.name < run.name][-REPLAYED:]
    names = run.once("replay", "earlier", lambda: {"runs": names})["runs"]
    found: list[Sample] = []
    for name in names:
        try:
            with open_run(root, name) as other:
                found += _taught(other, knowledge, architecture)
        except StoreError:
            continue  # gone or damaged: it has no part in this run's own results
    return found


def _taught(run: Run, knowledge: str, architecture: str) -> list[Sample]:
    about = next((e.data for e in run.events if e.kind == "theta"), {})
    if (about.get("knowledge"), about.get("architecture")) != (knowledge, architecture):
        return []
    steps = [Step.model_validate(s) for e in run.events if e.kind == "steps" for s in e.data["steps"]]
    judged = {e.key: e.data["evaluation"] for e in run.events if e.kind == "evaluation"}
    evaluations = {code: Evaluation.model_validate(found) for code, found in judged.items()}
    return samples(steps, evaluations, about["floor_bytes"])
