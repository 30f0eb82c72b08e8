"""Writes the parts of prompts on performance states and techniques, from the knowledge base."""

from collections.abc import Sequence
from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry, Scored
from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.knowledge.retrieval import OTHER_BOTTLENECK, Neighbourhood, Precedent, Retrieved
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.figures import figure
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.policy import WORTH_SAYING
from kernelblaster.records import Optimization, State
from kernelblaster.records.recipe import is_recipe
from kernelblaster.records.state import HEADROOM

SHOWN, METRICS = 0.1, 6  # metrics of a state: how large the smallest, and how many
ALSO = "; also: "  # where a description begins to repeat the secondary words of the name
NOTES = 3  # of a technique or a state
PRECEDENTS = 3  # states in which a technique's results are told
HELPFUL = 3  # techniques that are named for a known state
EVIDENCE, MEANING, PAST = 50, 35, 48  # importance of a technique's line, of what it is, and of its results


def state_text(state: State, around: Neighbourhood | None = None, *, figures: bool = False) -> str:
    """Returns lines for a prompt on a performance state: its name, its description, and the latest notes on
    it and on similar states. The notes come from `around`, the part of the knowledge base about this state
    and similar ones; if it is None, there are none. `figures` adds the state's metrics, for prompts that show
    no profile."""
    name = around.name if around else None
    known_as = f" (known as {one_line(name)})" if name is not None and name != state.name else ""
    evidence = _evidence(state) if figures else ""
    described = state.description.partition(ALSO)[0].rstrip(".")  # the name has the rest
    lines = [f"{one_line(state.name)}{known_as}: {one_line(described, 300)}.{evidence}"]
    for where, note in around.notes()[:NOTES] if around else ():
        lines.append(f"Note{'' if where == name else f' on {one_line(where, 80)}'}: {one_line(note, 300)}")
    return "\n".join(lines)


def _evidence(state: State) -> str:
    """Names the metrics by which a performance state was recognized, the largest first, as a sentence; empty
    if all are too small to be shown (below SHOWN)."""
    shown = sorted(
        (-value, key) for key, value in state.metrics.items() if value >= SHOWN and key != HEADROOM
    )
    metrics = ", ".join(figure(key, -value) for value, key in shown[:METRICS])
    return f" Evidence: {metrics}." if metrics else ""


def helps(content: Content, state: str, architecture: str) -> str:
    """Returns an indented line with the three most promising techniques (HELPFUL) in the performance state
    named `state`, for a prompt: each with its expected speedup on the GPU `architecture` (such as `sm_90a`)
    and its number of attempts. `content` is the knowledge base. Empty if that has no technique for the
    state."""
    best = content.optimizations(state, architecture)[:HELPFUL]
    entries = content.entries.get(content.resolve(state), {})
    named = [
        f"{one_line(name, 80)} {amount(name, one.prediction.mean)}{_tried(entries[name].evidence)}"
        for one in best
        for name in (one.optimization.technique,)
    ]
    return f"  helps there: {', '.join(named)}" if named else ""


def _tried(evidence: Evidence) -> str:
    """The number of attempts behind a prediction, such as ` (12 tried)`; empty if there are none."""
    return f" ({evidence.total.attempts:.0f} tried)" if evidence.total.attempts >= 1 else ""


def entry_text(entry: OptimizationEntry, architecture: str) -> str:
    """Returns lines for a prompt on one technique in one performance state, from its `entry` in the knowledge
    base: the speedup expected on the GPU `architecture` (such as `sm_90a`), what the technique does and
    needs, and its latest notes."""
    scored = entry.scored(architecture)
    optimization = scored.optimization
    lines = [f"{_expected(scored)}{_tried(entry.evidence)}"]
    if optimization.description:
        lines.append(f"  {one_line(optimization.description, 400)}")
    if optimization.preconditions:
        lines.append(f"  Needs: {one_line('; '.join(optimization.preconditions), 400)}")
    lines += [f"  Note: {one_line(note, 300)}" for note in scored.notes[-NOTES:]]
    return "\n".join(lines)


def _expected(scored: Scored) -> str:
    """A technique's name with its expected speedup, the interval of that, and the chance of a valid candidate
    if it is below 70 %. For a recipe (several techniques in one step), what is expected is where it ends."""
    low, high = scored.prediction.interval
    chance = scored.prediction.valid_chance
    valid = f"; {chance:.0%} valid" if chance < 0.7 else ""
    name = scored.optimization.technique
    expected = amount(name, scored.prediction.mean)
    return f"{one_line(name, 120)}: expected {expected} ({low:.2f} to {high:.2f}{valid})"


def amount(technique: str, mean: float) -> str:
    """Returns a technique's mean result with its unit, for a prompt. `mean` is the mean of the natural
    logarithms of results, so exp(`mean`) is shown. For a single technique, results are speedups: "1.30x". For
    a recipe (several techniques in one step), the knowledge base keeps instead how fast the candidate is
    afterwards, as a fraction of the speed of the roofline floor (the least time that any implementation
    needs): "0.81 of the floor's speed"."""
    return f"{exp(mean):.2f}" + (" of the floor's speed" if is_recipe(technique) else "x")


def meaning(optimization: Optimization) -> str:
    """Returns what the technique `optimization` does and what it needs, as one indented line; empty if
    neither is known."""
    needs = "; ".join(optimization.preconditions)
    sentences = [one_line(optimization.description, 220), f"Needs: {one_line(needs, 240)}." if needs else ""]
    return f"  {' '.join(words for words in sentences if words)}".rstrip()


def results(precedents: Sequence[Precedent]) -> list[str]:
    """Returns indented lines for a prompt on the earlier results of a technique. `precedents` has what is
    known about it in each performance state that has it, the nearest state first. The first three of these
    (PRECEDENTS) with attempts or notes are described: the mean speedup, how many attempts gave a valid
    candidate, the failures, and the latest notes."""
    told = [p for p in precedents if p.entry.evidence.total.attempts >= 1 or p.entry.notes]
    return [line for one in told[:PRECEDENTS] for line in _result(one)]


def _result(precedent: Precedent) -> list[str]:
    """The lines on what came of a technique in one state that the knowledge base knows; empty if it has
    neither an attempt nor a note there."""
    entry, tally = precedent.entry, precedent.entry.evidence.total
    where = "in this state" if precedent.distance == 0 else f"in {one_line(entry.state, 80)}"
    mean = entry.evidence.of_one_clock.total.mean
    gained = amount(entry.technique, mean) if tally.seen >= 1 else "nothing valid"
    failures = sorted(entry.evidence.failures.items(), key=lambda item: (-item[1], item[0]))
    failed = "".join(f", {count:.0f} {kind}" for kind, count in failures if count >= 0.5)
    lines = []
    if tally.attempts >= 1:
        counted = f"{tally.seen:.0f} of {tally.attempts:.0f} valid ({entry.evidence.clocks}){failed}"
        lines.append(f"  {where}: {gained}, {counted}")
    noted = "" if precedent.distance == 0 else f" ({where})"
    return lines + [f"  Note{noted}: {one_line(note, 300)}" for note in entry.notes[-NOTES:][::-1]]


def technique_pieces(retrieved: Sequence[Retrieved]) -> list[Piece]:
    """Returns texts for a prompt on techniques that were retrieved from the knowledge base, in their order.
    They say what speedup is expected of each, what earlier attempts in this and other performance states
    gave, and what the technique does. If the prompt is too long, the descriptions of what techniques do are
    left out first, beginning with the last technique."""
    return [
        piece
        for rank, one in enumerate(retrieved)
        for piece in (
            Piece(f"- {_expected(one.scored)}", EVIDENCE - rank),
            *(Piece(line, PAST - rank) for line in results(one.precedents)),
            Piece(meaning(one.scored.optimization), MEANING - rank),
        )
        if piece.text
    ]


def technique_text(one: Retrieved) -> str:
    """Returns lines for a prompt on one technique: its expected speedup, what it does and needs, and the
    results of earlier attempts in this performance state and similar ones."""
    optimization = one.scored.optimization
    lines = [_expected(one.scored)]
    if optimization.description:
        lines.append(f"  {one_line(optimization.description, 600)}")
    if optimization.preconditions:
        lines.append(f"  Needs: {one_line('; '.join(optimization.preconditions), 400)}")
    return "\n".join([*lines, *results(one.precedents)])


def pays(one: Retrieved) -> bool:
    """True if a technique gave a valid candidate at least once in this performance state or in one with the
    same bottleneck, and the speedup expected of it is more than 10 %."""
    tried = [p for p in one.precedents if p.entry.evidence.total.seen >= 1]
    near = any(p.distance < OTHER_BOTTLENECK for p in tried)
    return near and one.scored.prediction.mean > WORTH_SAYING
