"""What the knowledge base says about a state and a technique, in words for a prompt."""

from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.matching import MATCH, nearest
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.policy import WORTH_SAYING
from kernelblaster.records import State
from kernelblaster.records.state import HEADROOM

SHOWN, METRICS = 0.1, 6  # metrics of a state: how large the smallest, and how many
NOTES = 3  # of a technique or a state
EVIDENCE = 50  # importance of a technique's line; less for each further one


def known_state(content: Content, state: State) -> str | None:
    """The known state that this one is, or is near enough to, by the name under which it is kept now;
    None where there is none."""
    if state.name in content.states:
        return content.resolve(state.name)
    found = nearest(state, [entry.state for entry in content.living])
    return found.state.name if found is not None and found.distance <= MATCH else None


def state_text(state: State, content: Content, name: str) -> str:
    """The state that was found, the known one that it is, and what was noted there."""
    lines = [f"{one_line(state.name)}: {one_line(state.description, 300)}{_evidence(state)}"]
    known = content.states.get(name)
    if known is not None and name != state.name:
        lines.append(f"Known as {one_line(name)}: {one_line(known.state.description, 300)}")
    lines += [f"Note: {one_line(note, 300)}" for note in (known.notes[-NOTES:] if known else ())]
    return "\n".join(lines)


def _evidence(state: State) -> str:
    """The numbers that a state was recognized by, the largest first."""
    shown = sorted(
        (-value, key) for key, value in state.metrics.items() if value >= SHOWN and key != HEADROOM
    )
    told = ", ".join(f"{key} {-value:.2f}" for value, key in shown[:METRICS])
    return f" Evidence: {told}." if told else ""


def technique_text(scored: Scored, attempts: float, *, briefly: bool = False) -> str:
    """What is expected of a technique, and how sure that is; unless `briefly`, what it is."""
    optimization, low_high = scored.optimization, scored.prediction.interval
    tried = f"tried {attempts:.0f} times" if attempts >= 1 else "never tried here"
    lines = [
        f"{one_line(optimization.technique)}: expected {exp(scored.prediction.mean):.2f}x "
        f"({low_high[0]:.2f} to {low_high[1]:.2f}; {tried}, {scored.prediction.valid_chance:.0%} valid)"
    ]
    if optimization.description and not briefly:
        lines.append(f"  {one_line(optimization.description, 400)}")
    if optimization.preconditions and not briefly:
        lines.append(f"  Needs: {one_line('; '.join(optimization.preconditions), 300)}")
    lines += [f"  Note: {one_line(note, 300)}" for note in scored.notes[-NOTES:]]
    return "\n".join(lines)


def techniques(content: Content, state: str, architecture: str, most: int) -> list[tuple[str, Piece]]:
    """The techniques that are known in a state, the most promising first, each with a line or two."""
    if state not in content.states:
        return []
    entries = content.entries.get(content.resolve(state), {})
    found = content.optimizations(state, architecture)[:most]
    return [
        (
            s.optimization.technique,
            Piece(f"- {technique_text(s, attempts(entry), briefly=True)}", EVIDENCE - place),
        )
        for place, s in enumerate(found)
        if (entry := entries.get(s.optimization.technique)) is not None
    ]


def proven(content: Content, state: str, architecture: str) -> int:
    """How many techniques were tried in a state and are expected to gain something there."""
    entries = content.entries.get(state, {}).values()
    tried = [e for e in entries if e.retired is None and attempts(e) >= 1]
    return sum(e.prediction(architecture).mean > WORTH_SAYING for e in tried)


def attempts(entry: OptimizationEntry) -> float:
    return entry.evidence.total.attempts
