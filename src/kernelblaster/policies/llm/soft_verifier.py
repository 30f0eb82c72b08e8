"""The soft verifier, a role of the language model: it reviews a final candidate's code against the reference.
It can flag or reject, never accept: the judge alone decides whether a candidate is correct and faster."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, data, one_line
from kernelblaster.policies.llm.facts import compared_at
from kernelblaster.policies.llm.neutral import neutral
from kernelblaster.policies.llm.reference_words import reference, rival
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.structure import StructureFinding, structure
from kernelblaster.records import Candidate

Verdict = Literal["nothing-found", "flagged", "rejected"]
UNTESTED = "untested-path"  # no reason to reject: nothing is known to be wrong there


class Suspicion(BaseModel):
    kind: Literal["functionality-removed", "shortcut", "forbidden-library", "untested-path", "other"]
    line: str = Field(description="A line of the candidate, copied to the letter.")
    why: str


class Opinion(BaseModel):
    verdict: Literal["nothing-found", "flag", "reject"]
    findings: list[Suspicion] = Field(default_factory=list)


@dataclass(frozen=True)
class Review:
    """The result of a review. `verdict` is `nothing-found`, `flagged` (the findings are shown to the user) or
    `rejected` (the candidate must not be the result). `findings` are sentences on what was found."""

    verdict: Verdict
    findings: tuple[str, ...]


def review_by_rules(scene: Scene, candidate: Candidate) -> Review:
    """Returns the verdict on the candidate's code (nothing found, flagged or rejected) with the findings,
    without asking a model. Fixed rules look for forbidden libraries, missing launches, unused arguments and
    special cases for the timed sizes. `scene` has the task."""
    return _review(structure(scene.task, candidate.source), None, "")


def review_by_model(scene: Scene, candidate: Candidate) -> Review:
    """Returns the verdict on the candidate's code (nothing found, flagged or rejected) with the findings.
    They are found by the rules of structure.py and by the model, which can only add findings. `scene` has the
    task and asks the model. The model sees neither comments, strings nor profiles, so that text in the
    candidate cannot influence it. A source that compilers might read in two ways is rejected without asking
    the model."""
    findings = structure(scene.task, candidate.source)
    if any(finding.kind == "unreadable" for finding in findings):
        return _review(findings, None, "")
    opinion = scene.asker.ask(verifier_question(scene, candidate, findings))
    return _review(findings, opinion, neutral(candidate.source))


def verifier_question(scene: Scene, candidate: Candidate, found: list[StructureFinding]) -> Question[Opinion]:
    """Returns the question that asks the model for a verdict on a candidate for the task of `scene`, with the
    lines of it that are objectionable and why. `found` are the objections that the rules of structure.py have
    found; the prompt lists them. Raises `UnreadableSource` for a source that compilers might read in two
    ways."""
    code = neutral(candidate.source)
    return Question(
        role="soft-verifier",
        key=candidate.code,
        system=f"You review CUDA code for someone who will run it. {RULE}",
        template="soft_verifier.md",
        sections={
            "reference": reference(scene.task),
            "tested": compared_at(scene.task, modelled=scene.modelled),
            "dtype": scene.task.dtype,
            "rival": rival(scene.task),
            "source": data("candidate", code),
            "found": "\n".join(f"- {f.kind}: {one_line(f.text)}" for f in found) or "Nothing.",
        },
        schema=Opinion,
    )


def _review(found: list[StructureFinding], opinion: Opinion | None, code: str) -> Review:
    """The result of a review from the objections `found` by rules and the model's opinion (None: not asked,
    or unusable). The model can reject only with a finding whose quoted line occurs in `code`, the text that
    it saw; otherwise it flags."""
    texts = [f"{finding.kind}: {finding.text}" for finding in found]
    shown = opinion.findings if opinion and opinion.verdict != "nothing-found" else []
    texts += [f"{s.kind}: {one_line(s.why, 300)} ({one_line(s.line, 120)})" for s in shown]
    grave = [s for s in shown if s.line.strip() and s.kind != UNTESTED]
    proven = any(" ".join(s.line.split()) in " ".join(code.split()) for s in grave)
    if any(finding.grave for finding in found) or (opinion and opinion.verdict == "reject" and proven):
        return Review("rejected", tuple(texts))
    suspected = bool(found) or (opinion is not None and opinion.verdict != "nothing-found")
    return Review("flagged" if suspected else "nothing-found", tuple(texts))
