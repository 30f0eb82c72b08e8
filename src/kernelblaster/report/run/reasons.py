"""`Reasons`: why a step was tried, in sentences made from what the run recorded about its choice."""

import json
from collections.abc import Sequence
from functools import cache
from math import exp
from typing import Any

from kernelblaster.knowledge.seed import seed_document
from kernelblaster.policies.llm.asker import ANSWER
from kernelblaster.records import Step
from kernelblaster.records.recipe import Recipe
from kernelblaster.store.events import RunEvent
from kernelblaster.store.history import conclusion

PROPOSER = "proposer/"
DRAWN: dict[str, str] = {
    "weighted": "drawn among them with a chance that grows with the gain that is expected",
    "thompson": "drawn among them by what a look at each one's evidence gave (Thompson sampling)",
}


class Reasons:
    """Explains the steps of a run in sentences, from the run's recorded events: why a step was tried, what
    its technique does, why its result differed from the prediction. Whatever is not recorded is left out."""

    def __init__(self, events: Sequence[RunEvent]) -> None:
        about = events[0].data if events else {}
        self._selection = str((about.get("search") or {}).get("selection", "weighted"))
        self._choices = {event.key: event.data for event in events if event.kind == "choice"}
        self._offers = {event.key: event.data["techniques"] for event in events if event.kind == "proposals"}
        self._gaps = [gap for event in events if event.kind == "update" for gap in event.data["gaps"]]
        ended: dict[str, Any] = (conclusion(events, "results") or {}).get("learned", {})
        self._before = {(c["state"], c["technique"]): c["before"] for c in ended.get("techniques", ())}
        self._described = _described_by(ended.get("events", ()))
        self._proposed = _proposed_by(events)

    def why(self, step: Step) -> list[str]:
        """Returns sentences on why the search tried this step: the performance state of the kernel, the
        techniques that applied there, how this one was chosen among them, and the speedup that was
        expected."""
        key = f"{step.id.iteration}/{step.id.rollout}/{step.id.number}"
        choice = self._choices.get(key)
        sentences = [self._where(step), *self._offered(key, choice, step), self._expected(step)]
        option = _option(choice, step)
        if option is not None:
            sentences.append(_promised(option))
        proposed = self._proposed.get(step.technique)
        if proposed:
            sentences.append(f"The model that proposed it said: {proposed}")
        if step.id.retry:
            sentences.append(f"Try {step.id.retry + 1} of this technique: one before failed.")
        return [sentence for sentence in sentences if sentence]

    def what(self, technique: str) -> str:
        """Returns in sentences what a technique, or a recipe of several, does to a kernel; empty if no
        description is known."""
        recipe = Recipe.parse(technique)
        if recipe is not None:
            names = ", ".join(recipe.techniques)
            return f"A recipe: {names} paid together before, and are taken in one step."
        return self._described.get(technique) or _seed()[1].get(technique, "")

    def differed(self, step: Step) -> list[str]:
        """Returns why the gain of this step differed from the prediction, in the sentences that were recorded
        about its technique in its performance state; empty if there are none."""
        mine = (g for g in self._gaps if (g["state"], g["technique"]) == (step.state, step.technique))
        return list(dict.fromkeys(str(gap["sentence"]) for gap in mine))

    def _where(self, step: Step) -> str:
        """A sentence on the kernel that the step changed: its share of the candidate's time, and the
        performance state that it was in."""
        bound = _seed()[0].get(step.state.split("/")[0], "")
        kernel = step.kernel or "The call"
        meaning = f" ({bound[0].lower()}{bound[1:].rstrip('.')})" if bound else ""
        return f"{kernel} took {step.share:.0%} of the time; its state was {step.state}{meaning}."

    def _offered(self, key: str, choice: dict[str, Any] | None, step: Step) -> list[str]:
        """Sentences on the techniques on offer and how this one was chosen among them; `choice` is the
        recorded choice in the step `key` (iteration/rollout/step), None if there is none."""
        if choice is None:
            return []
        offered = self._offers.get(f"{key}/{choice.get('target', 0)}", ())
        listed = f"In that state these apply: {', '.join(offered)}." if offered else ""
        option = _option(choice, step)
        first = bool(choice["options"]) and option is choice["options"][0]
        how = DRAWN.get(self._selection, "drawn among them")
        if option is not None and option.get("pinned"):
            how = "pinned by a person: it is tried first wherever it applies"
        elif choice.get("by_chance") and first:
            how = "drawn by chance: now and then one is tried whatever it promises"
        return [listed, f"{step.technique} was {how}."]

    def _expected(self, step: Step) -> str:
        """A sentence on the speedup that was predicted for the step, and on how many attempts the prediction
        was based."""
        sentence = f"Expected: {step.predicted:.2f}x"
        key = (step.state, step.technique)
        if key not in self._before:
            return f"{sentence}."
        before = self._before[key]
        if before is None:
            return f"{sentence}, a guess from other states: it was new in this one."
        if not before["attempts"]:
            return f"{sentence}, as a new knowledge base has it: nobody had tried it in this state."
        many = "1 attempt" if before["attempts"] == 1 else f"{before['attempts']:g} attempts"
        return f"{sentence}, from {many} in this state."


def _option(choice: dict[str, Any] | None, step: Step) -> dict[str, Any] | None:
    """What was recorded about this step's technique when it was chosen among others (`choice`); None if it
    was not among the options."""
    return next((o for o in (choice or {}).get("options", ()) if o["technique"] == step.technique), None)


def _promised(option: dict[str, Any]) -> str:
    """A sentence on the speedup that the technique promised, with failures and uncertainty counted in, and
    what of it comes from preparing others; empty if it was not recorded. `option` has both as log
    speedups."""
    promise, payoff = option.get("promise"), option.get("payoff")
    if promise is None:
        return ""
    prepares = f", {exp(payoff):.2f}x of it by what it prepares" if payoff else ""
    return f"With the chance that it fails and the uncertainty, it promised {exp(promise):.2f}x{prepares}."


def _described_by(learned: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Descriptions by technique, of those that this run added to the knowledge base; `learned` are the events
    that the run added."""
    changes = (event["change"] for event in learned)
    added = (c["optimization"] for c in changes if c["kind"] == "optimization_added")
    return {one["technique"]: one["description"] for one in added if one.get("description")}


def _proposed_by(events: Sequence[RunEvent]) -> dict[str, str]:
    """For each technique that a language model proposed, the reason that it gave; read from the run's
    `events`."""
    reasons: dict[str, str] = {}
    for event in events:
        if event.kind == ANSWER and event.key.startswith(PROPOSER) and event.data.get("answer"):
            for one in event.data["answer"].get("proposals", ()):
                reasons[str(one.get("technique"))] = str(one.get("reason") or "")
    return reasons


@cache
def _seed() -> tuple[dict[str, str], dict[str, str]]:
    """Descriptions by name of the states, and of the techniques, in the shipped initial knowledge base."""
    states = json.loads(seed_document())["states"]
    optimizations = [one for state in states.values() for one in state["optimizations"]]
    return (
        {name: str(state.get("description", "")) for name, state in states.items()},
        {one["technique"]: str(one.get("description", "")) for one in optimizations},
    )
