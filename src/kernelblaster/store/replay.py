"""The replay buffer: steps of earlier runs, with the evaluations before and after each, from which a later
search learns once more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelblaster.errors import StoreError
from kernelblaster.records import Evaluation, Step
from kernelblaster.store.run import Run, open_run, run_folders

REPLAYED = 5  # latest runs that are used


@dataclass(frozen=True)
class Sample:
    """A step with the evaluations of the candidate that it changed (`parent`) and of the one that it made
    (`child`). `floor_bytes` is the least memory traffic of the task, in bytes."""

    step: Step
    parent: Evaluation
    child: Evaluation
    floor_bytes: int


def samples(steps: Sequence[Step], evaluations: Mapping[str, Evaluation], floor_bytes: int) -> list[Sample]:
    """Joins each of `steps` with the evaluations of the candidates before and after it. `evaluations` has
    these by the candidates' `code`. `floor_bytes` is the least memory traffic of the task, in bytes."""
    return [Sample(s, evaluations[s.parent], evaluations[s.child], floor_bytes) for s in steps]


def earlier_samples(run: Run, knowledge: str, architecture: str) -> list[Sample]:
    """Returns the replay buffer of a run: steps of earlier runs that used the knowledge base named
    `knowledge` on the same GPU `architecture`. They are taken from the five runs (REPLAYED) before this one
    in its parent folder. The first call records which runs these are, so that the run uses the same ones when
    it is continued. Runs that cannot be read are skipped."""
    root = run.folder.parent
    names = [folder.name for folder in run_folders(root) if folder.name < run.name][-REPLAYED:]
    names = run.once("replay", "earlier", lambda: {"runs": names})["runs"]
    earlier: list[Sample] = []
    for name in names:
        try:
            with open_run(root, name) as other:
                earlier += _taught(other, knowledge, architecture)
        except StoreError:
            continue  # gone or damaged: this run's own results do not depend on it
    return earlier


def _taught(run: Run, knowledge: str, architecture: str) -> list[Sample]:
    """The steps of a run, with their evaluations; empty if it used another knowledge base or GPU
    architecture."""
    about = next((e.data for e in run.events if e.kind == "theta"), {})
    if (about.get("knowledge"), about.get("architecture")) != (knowledge, architecture):
        return []
    steps = [Step.model_validate(s) for e in run.events if e.kind == "steps" for s in e.data["steps"]]
    judged = {e.key: e.data["evaluation"] for e in run.events if e.kind == "evaluation"}
    evaluations = {code: Evaluation.model_validate(verdict) for code, verdict in judged.items()}
    return samples(steps, evaluations, about["floor_bytes"])
