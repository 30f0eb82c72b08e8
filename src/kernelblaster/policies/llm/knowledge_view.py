"""Parts of prompts about states and techniques, from the knowledge base."""

from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.figures import figure
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.policy import WORTH_SAYING
from kernelblaster.records import Optimization, State
from kernelblaster.records.state import HEADROOM

SHOWN, METRICS = 0.1, 6  # metrics of a state: how large the smallest, and how many
ALSO = "; also: "  # where a description begins to repeat the secondary words of the name
NOTES = 3  # of a technique or a state
EVIDENCE, MEANING = 50, 35  # importance of a technique's line and of what it is; less for each further one


def state_text(state: State, content: Content, name: str, *, figures: bool = False) -> str:
    """Lines on a state: its name and description, and the last notes on the known state `name` that it
    matches. `figures` adds its metrics, for prompts without a profile."""
    known_as = f" (known as {one_line(name)})" if name in content.states and name != state.name else ""
    evidence = _evidence(state) if figures else ""
    described = state.description.partition(ALSO)[0].rstrip(".")  # the name has the rest
    lines = [f"{one_line(state.name)}{known_as}: {one_line(described, 300)}.{evidence}"]
    known = content.states.get(name)
    lines += [f"Note: {one_line(note, 300)}" for note in (known.notes[-NOTES:] if known else ())]
    return "\n".join(lines)


def _evidence(state: State) -> str:
    """The largest metrics of a state, as a sentence; empty if all are below SHOWN."""
    shown = sorted(
        (-value, key) for key, value in state.metrics.items() if value >= SHOWN and key != HEADROOM
    )
    metrics = ", ".join(figure(key, -value) for value, key in shown[:METRICS])
    return f" Evidence: {metrics}." if metrics else ""


def technique_text(scored: Scored, evidence: Evidence, *, briefly: bool = False) -> str:
    """Lines on a technique in a state: expected speedup with its interval, and the last notes; unless
    `briefly`, also description and preconditions. `evidence` are the attempts there, of which it is said
    how many were measured and how many modelled; less than one counts as none."""
    optimization, low_high = scored.optimization, scored.prediction.interval
    attempts = evidence.total.attempts
    tried = f"tried {attempts:.0f} times ({evidence.clocks}), {scored.prediction.valid_chance:.0%} valid"
    lines = [
        f"{one_line(optimization.technique)}: expected {exp(scored.prediction.mean):.2f}x "
        f"({low_high[0]:.2f} to {low_high[1]:.2f}{f'; {tried}' if attempts >= 1 else ''})"
    ]
    if optimization.description and not briefly:
        lines.append(f"  {one_line(optimization.description, 400)}")
    if optimization.preconditions and not briefly:
        lines.append(f"  Needs: {one_line('; '.join(optimization.preconditions), 300)}")
    lines += [f"  Note: {one_line(note, 300)}" for note in scored.notes[-NOTES:]]
    return "\n".join(lines)


def meaning(optimization: Optimization) -> str:
    """What a technique does and what it needs, as one indented line; empty if neither is known."""
    needs = "; ".join(optimization.preconditions)
    sentences = [one_line(optimization.description, 220), f"Needs: {one_line(needs, 160)}." if needs else ""]
    return f"  {' '.join(words for words in sentences if words)}".rstrip()


def techniques(content: Content, state: str, architecture: str, most: int) -> list[tuple[str, list[Piece]]]:
    """The `most` most promising known techniques of a state: each name with two pieces, its prediction and
    its description. `state` is a name in `content`; an unknown one has no techniques. `architecture` (such as
    `sm_90a`) selects the scores."""
    if state not in content.states:
        return []
    entries = content.entries.get(content.resolve(state), {})
    scored = content.optimizations(state, architecture)[:most]
    return [
        (
            s.optimization.technique,
            [
                Piece(f"- {technique_text(s, entry.evidence, briefly=True)}", EVIDENCE - rank),
                Piece(meaning(s.optimization), MEANING - rank),
            ],
        )
        for rank, s in enumerate(scored)
        if (entry := entries.get(s.optimization.technique)) is not None
    ]


def proven(content: Content, state: str, architecture: str) -> int:
    """The number of techniques that were tried in a state at least once and are expected to gain more than 10
    %."""
    entries = content.entries.get(state, {}).values()
    tried = [e for e in entries if e.retired is None and attempts(e) >= 1]
    return sum(e.prediction(architecture).mean > WORTH_SAYING for e in tried)


def attempts(entry: OptimizationEntry) -> float:
    """How often a technique was tried in its state, on all GPUs; a fraction where evidence was re-weighed."""
    return entry.evidence.total.attempts
