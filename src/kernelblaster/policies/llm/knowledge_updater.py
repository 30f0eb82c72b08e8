"""The knowledge updater: writes notes on what an iteration showed."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Change, Noted
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.knowledge_view import technique_text
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Gap

LETTERS = 240


class Note(BaseModel):
    number: int
    note: str = Field(description="One sentence.")


class Notes(BaseModel):
    notes: list[Note]


def notes_by_model(scene: Scene, gaps: Sequence[Gap], now: Content, key: str) -> list[Change] | None:
    """The model's notes on techniques as changes to the knowledge base `now`; those that it already has are
    left out. None if there are no gaps or no usable answer. The model adds text only: scores come from
    measurements. `key` identifies the question in the run."""
    answer = scene.asker.ask(updater_question(scene, gaps, now, key)) if gaps else None
    if answer is None:
        return None
    changes: list[Change] = []
    for one in answer.notes:
        if 0 <= one.number < len(gaps):
            discrepancy = gaps[one.number].discrepancy
            note = one_line(one.note, LETTERS)
            if note and note not in now.entry(discrepancy.state, discrepancy.technique).notes:
                changes.append(Noted(state=discrepancy.state, technique=discrepancy.technique, note=note))
    return changes


def updater_question(scene: Scene, gaps: Sequence[Gap], now: Content, key: str) -> Question[Notes]:
    """The question for notes on these gaps, with what the knowledge base already holds of their
    techniques."""
    findings = [
        Piece(
            f"{number}. {one_line(gap.discrepancy.technique, 80)} in {one_line(gap.discrepancy.state, 80)}: "
            f"{gap.cause}. {one_line(gap.sentence, 400)}",
            NEEDED if number < 3 else max(1, 60 - number),
        )
        for number, gap in enumerate(gaps)
    ]
    entries = [now.entry(gap.discrepancy.state, gap.discrepancy.technique) for gap in gaps]
    held = [
        Piece(f"- {e.state}: {technique_text(e.scored(scene.architecture), e.evidence)}", 50 - rank)
        for rank, e in enumerate(entries[:12])
    ]
    return Question(
        role="knowledge-updater",
        key=key,
        system=f"You keep a knowledge base of CUDA optimizations short and true. {RULE}",
        template="knowledge_updater.md",
        sections={"findings": findings, "held": held},
        schema=Notes,
    )
