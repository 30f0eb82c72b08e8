"""The knowledge updater, a role of the language model: it turns what an iteration found into notes,
conditions, descriptions and new techniques in the knowledge base."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, Field

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.events import Change, OptimizationAdded, Provenance, Revised
from kernelblaster.knowledge.guess import GUESS_WEIGHT
from kernelblaster.policies.expert.learning import noted
from kernelblaster.policies.llm.asker import Question
from kernelblaster.policies.llm.data import RULE, one_line
from kernelblaster.policies.llm.knowledge_view import entry_text
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.llm.proposer import technique_name
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Gap, PolicyEvaluation
from kernelblaster.records import Optimization

LETTERS = 240  # of a note or a condition
DESCRIPTION = 600
CONDITIONS = 5  # of one technique in a state
NEW = 2  # techniques in one answer
PREDICTED = (0.5, 100.0)  # what a prediction is kept within


class Note(BaseModel):
    number: int
    note: str = Field(description="One sentence.")


class NewTechnique(BaseModel):
    number: int
    technique: str = Field(description="A general name in lower_case_with_underscores.")
    description: str
    predicted: float = Field(description="The speedup of the whole call; 1.0 is none.", gt=0)


class KnowledgeUpdate(BaseModel):
    notes: list[Note] = Field(default_factory=list)
    state_notes: list[Note] = Field(default_factory=list)
    preconditions: list[Note] = Field(default_factory=list)
    descriptions: list[Note] = Field(default_factory=list)
    outdated: list[Note] = Field(default_factory=list)
    new_techniques: list[NewTechnique] = Field(default_factory=list)


def update_by_model(
    scene: Scene, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content, key: str
) -> KnowledgeUpdate | None:
    """Asks the model what is to be learned from `gaps`, the explanations of the discrepancies in `evaluation`
    (gains that differ from what was expected). Returns its answer: notes, conditions and descriptions for
    techniques, notes on performance states, notes to remove, and new techniques. The knowledge base `now` is
    not changed; `changes_of` converts the answer to changes. None if there are no gaps or the model gives no
    usable answer. `scene` is the context for the prompt; `key` identifies the question in the run."""
    return scene.asker.ask(updater_question(scene, evaluation, gaps, now, key)) if gaps else None


def changes_of(answer: KnowledgeUpdate, gaps: Sequence[Gap], now: Content) -> list[Change]:
    """Returns the model's `answer` as changes to the knowledge base `now`: texts to add, revise or remove,
    and new techniques. The answer refers to `gaps` by position, from 0. Parts of it that refer to no gap, are
    empty, or are in the knowledge base already are left out. Predicted and measured gains of known techniques
    are not changed."""
    working = now.copy()
    changes = []
    for change in _changes(answer, gaps, working):
        working.apply(change, Provenance())  # what follows is made for what this leaves
        changes.append(change)
    return changes


def _changes(answer: KnowledgeUpdate, gaps: Sequence[Gap], now: Content) -> Iterator[Change]:
    """Yields the changes that `answer` makes to the knowledge base, one at a time; the caller must apply each
    to `now` before it takes the next. The answer's notes refer to `gaps` by number."""
    yield from _dropped(answer, gaps, now)
    for entry, note in _of(answer.notes, gaps, now, LETTERS):
        yield from noted(now, entry.state, note, entry.technique)
    for entry, note in _of(answer.state_notes, gaps, now, LETTERS):
        yield from noted(now, entry.state, note)
    for entry, needs in _of(answer.preconditions, gaps, now, LETTERS):
        if needs not in entry.preconditions and len(entry.preconditions) < CONDITIONS:
            conditions = (*entry.preconditions, needs)
            yield Revised(state=entry.state, technique=entry.technique, preconditions=conditions)
    for entry, words in _of(answer.descriptions, gaps, now, DESCRIPTION):
        if words != entry.description:
            yield Revised(state=entry.state, technique=entry.technique, description=words)
    yield from _added(answer, gaps, now)


def _of(
    notes: Sequence[Note], gaps: Sequence[Gap], now: Content, letters: int
) -> Iterator[tuple[OptimizationEntry, str]]:
    """Yields for each of the model's `notes` (the knowledge base's entry for the technique that the note is
    about, the note as one line of at most `letters` characters). A note refers by number to one of `gaps`,
    whose technique is meant. Only the first note for a gap counts; empty notes and those for no gap are left
    out. `now` is the knowledge base."""
    for one in {note.number: note for note in reversed(notes)}.values():
        text = one_line(one.note, letters)
        if 0 <= one.number < len(gaps) and text:
            found = gaps[one.number].discrepancy
            yield now.entry(found.state, found.technique), text


def _dropped(answer: KnowledgeUpdate, gaps: Sequence[Gap], now: Content) -> Iterator[Change]:
    """Changes that remove notes which the model's `answer` calls outdated from the knowledge base's entries
    for the techniques of `gaps`; a note is found by its text, regardless of spaces."""
    for entry, text in _of(answer.outdated, gaps, now, LETTERS):
        kept = tuple(note for note in entry.notes if one_line(note, LETTERS) != text)
        if kept != entry.notes:
            yield Revised(state=entry.state, technique=entry.technique, notes=kept)


def _added(answer: KnowledgeUpdate, gaps: Sequence[Gap], now: Content) -> Iterator[Change]:
    """Changes that add up to NEW new techniques from the model's `answer`, each to the performance state of
    the gap that it refers to by number; those with an invalid name or known there are left out."""
    low, high = PREDICTED
    for one in answer.new_techniques[:NEW]:
        name = technique_name(one.technique)
        if name is None or not 0 <= one.number < len(gaps):
            continue
        state = now.resolve(gaps[one.number].discrepancy.state)
        if name not in now.entries.get(state, {}):
            optimization = Optimization(
                technique=name,
                title=name.replace("_", " "),
                description=one_line(one.description, DESCRIPTION),
                predicted=min(high, max(low, one.predicted)),
            )
            yield OptimizationAdded(state=state, optimization=optimization, weight=GUESS_WEIGHT)


def updater_question(
    scene: Scene, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content, key: str
) -> Question[KnowledgeUpdate]:
    """Returns the question that asks the model for notes, conditions, descriptions and new techniques for the
    knowledge base `now`. It is about `gaps`, the explanations of the discrepancies in `evaluation` (gains
    that differ from what was expected), and quotes what the knowledge base has on their techniques and
    performance states. `scene` is the context for the prompt; `key` identifies the question in the run."""
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
        Piece(f"- {e.state}: {entry_text(e, scene.architecture)}", 50 - rank)
        for rank, e in enumerate(entries[:12])
    ]
    states = dict.fromkeys(entry.state for entry in entries)
    held += [
        Piece(f"- {one_line(name, 80)}, noted: {one_line(note, LETTERS)}", 30 - rank)
        for name in states
        for rank, note in enumerate(reversed(now.states[name].notes))
    ]
    return Question(
        role="knowledge-updater",
        key=key,
        system=f"You keep a knowledge base of CUDA optimizations short and true. {RULE}",
        template="knowledge_updater.md",
        sections={"findings": findings, "held": held, "remark": one_line(evaluation.remark, 300)},
        schema=KnowledgeUpdate,
    )
