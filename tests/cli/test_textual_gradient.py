"""The textual gradient from outside: what the learning roles of one run say is in the knowledge base, and in
the prompts of a later run of another task, over either protocol."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from tests.cli.model_runs import SHORT, Place, model_place, told, use
from tests.models.conftest import own_environment
from tests.models.server import Script, serving
from tests.policies.llm.played import NO_CHANGE, TASK, plays, prompt_of, role_of

__all__ = ["own_environment"]

TWO_STEPS = (*SHORT[:-1], "2")
SAID = {
    "policy-evaluator": {"worth_explaining": [0, 1], "remark": "MARKREMARK: passes over memory decide."},
    "gap-analyst": {
        "gaps": [{"number": 0, "cause": "bottleneck-removed", "sentence": "MARKSENTENCE: fewer passes."}]
    },
}
WORDS = {
    "preconditions": [{"number": 0, "note": "MARKNEEDS: several passes over one tensor"}],
    "descriptions": [{"number": 0, "note": "MARKDESCRIBED: one kernel for all."}],
    "new_techniques": [
        {"number": 0, "technique": "mark_technique", "description": "MARKNEW: a way.", "predicted": 1.4}
    ],
}
NOTES = {
    "notes": [{"number": 0, "note": "MARKNOTE: fuse before anything else."}],
    "state_notes": [{"number": 0, "note": "MARKSTATE: nothing is busy there."}],
}


def learn(place: Place) -> None:
    """A run of two steps whose learning roles say something."""
    told(place.optimize(*TWO_STEPS))
    asked = {role_of(call): prompt_of(call) for call in place.script.calls}
    assert {*SAID, "knowledge-updater"} <= set(asked)
    assert "MARKREMARK" in asked["gap-analyst"] and "MARKREMARK" in asked["knowledge-updater"]
    assert "MARKSENTENCE" in asked["knowledge-updater"]


@pytest.mark.parametrize(
    ("protocol", "other", "update", "marks"),
    [
        ("openai", "anthropic", WORDS, ("REMARK", "SENTENCE", "NEEDS", "DESCRIBED", "NEW")),
        ("anthropic", "openai", NOTES, ("NOTE", "STATE")),
    ],
)
def test_what_is_learned_in_words_reaches_another_run(
    compiler: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    other: str,
    update: dict[str, Any],
    marks: tuple[str, ...],
) -> None:
    """Where the updater has no note of its own, the sentence and the remark of the others are kept."""
    use(monkeypatch, tmp_path)
    said = {**SAID, "knowledge-updater": update}
    instead = {role.replace("-", "_"): (lambda _, role=role: said[role]) for role in said}  # type: ignore[misc]
    with model_place(tmp_path, protocol, plays(**instead)) as place:
        learn(place)
    with KnowledgeBase(tmp_path / "kb.db", create=False) as knowledge:
        content = knowledge.content()
        learned = json.dumps(
            [entry.model_dump(mode="json") for entry in (*content.living, *content.living_entries)]
        )
    for mark in marks:
        assert f"MARK{mark}" in learned, mark
    (tmp_path / "later.py").write_text(TASK.replace("rows = 4096", "rows = 4000"))
    script = Script(plays(lowerer=lambda text: NO_CHANGE))
    with serving(script) as address:
        model = f"{other}:m@{address}" + ("/v1" if other == "openai" else "")
        later = Place(tmp_path, model, script)
        words = [word if word != "relu.py" else "later.py" for word in later.words("--model", model, *SHORT)]
        place_result = later.invoke(words)
        assert place_result.exit_code in (0, 1), place_result.output
    prompts = "\n".join(prompt_of(call) for call in script.calls)
    for mark in marks:
        assert f"MARK{mark}" in prompts, mark
