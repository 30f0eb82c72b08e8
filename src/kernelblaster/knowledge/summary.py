"""Statistics of a knowledge base, and a search for techniques by words."""

from collections import defaultdict
from collections.abc import Iterable
from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.tally import total
from kernelblaster.records.record import Record


class Payoff(Record):
    """A technique and an earlier one, with the speedups that were seen with and without the earlier one.
    `speedup` is the mean speedup of `technique` in the performance state `state`, in attempts after `after`
    had been applied; `speedup_without` is that in all other attempts (None if there are none). `count` is the
    number of valid attempts behind `speedup`. `modelled`: all times come from a model of a GPU, because none
    was measured. (`Scored.payoff` is something else: what the earlier technique is expected to be worth
    because of this.)"""

    state: str
    technique: str
    after: str
    speedup: float
    speedup_without: float | None
    count: float
    modelled: bool = False


class KnowledgeSummary(Record):
    """What a knowledge base contains at `version`, as counts. States that were merged into others do not
    count, nor do their techniques. `states` counts performance states; searches added `discovered` of these.
    `optimizations` counts techniques, once in each state; `retired` of these are no longer offered, and
    `untried` of these have no attempts. `attempts` counts attempts: `failures` has the failed ones by kind,
    `evidence` all of them by GPU architecture, `families` all of them by task family. These need not be whole
    numbers, since old evidence is given less weight. `payoffs` are pairs of techniques of which one was
    applied after the other, the largest speedup of the later one first."""

    version: int
    states: int
    discovered: int
    optimizations: int
    retired: int
    untried: int
    attempts: float
    failures: dict[str, float]
    evidence: dict[str, float]
    families: dict[str, float]
    payoffs: tuple[Payoff, ...]


def search(content: Content, words: str) -> list[OptimizationEntry]:
    """Returns the entries (techniques in performance states) of `content` whose texts contain every word of
    `words`, in upper or lower case. The texts are the name, tags and description of the state, and the name,
    title, description, preconditions and notes of the technique."""
    wanted = words.lower().split()
    matching = []
    for entry in _entries(content):
        state = content.states[entry.state].state
        texts = (entry.state, state.description, *state.secondary, entry.technique, entry.title)
        text = " ".join((*texts, entry.description, *entry.preconditions, *entry.notes)).lower()
        if all(word in text for word in wanted):
            matching.append(entry)
    return matching


def summarize(content: Content, payoffs: int = 5) -> KnowledgeSummary:
    """Returns counts of what a knowledge base's content has: performance states, techniques, and attempts (by
    kind of failure, GPU architecture and task family). Also returns pairs of techniques of which one was
    applied after the other, at most `payoffs` of them, the largest speedup of the later one first."""
    entries = list(_entries(content))
    failures: defaultdict[str, float] = defaultdict(float)
    architectures: defaultdict[str, float] = defaultdict(float)
    families: defaultdict[str, float] = defaultdict(float)
    for entry in entries:
        for kind, count in entry.evidence.failures.items():
            failures[kind] += count
        for architecture, cells in entry.evidence.gains.items():
            for family, tally in cells.items():
                architectures[architecture] += tally.attempts
                families[family] += tally.attempts
    return KnowledgeSummary(
        version=content.version,
        states=len(content.living),
        discovered=sum(entry.discovered for entry in content.living),
        optimizations=len(entries),
        retired=sum(entry.retired is not None for entry in entries),
        untried=sum(entry.evidence.total.attempts == 0 for entry in entries),
        attempts=sum(entry.evidence.total.attempts for entry in entries),
        failures=dict(failures),
        evidence=dict(architectures),
        families=dict(families),
        payoffs=tuple(_payoffs(entries)[:payoffs]),
    )


def _entries(content: Content) -> Iterable[OptimizationEntry]:
    """Yields what is known about each technique in each state, for all states that were not merged into
    others."""
    for state in content.living:
        yield from content.entries.get(state.state.name, {}).values()


def _payoffs(entries: list[OptimizationEntry]) -> list[Payoff]:
    """Pairs of techniques of which one was applied after the other at least twice with a valid result, by the
    mean speedup of the later one, the largest first."""
    payoffs = []
    for entry in entries:
        evidence = entry.evidence.of_one_clock
        for technique, cells in evidence.after.items():
            after = total(cells.values())
            without = evidence.total.minus(after)
            if after.seen >= 2:
                payoffs.append(
                    Payoff(
                        state=entry.state,
                        technique=entry.technique,
                        after=technique,
                        speedup=exp(after.mean),
                        speedup_without=exp(without.mean) if without.seen else None,
                        count=after.seen,
                        modelled=evidence.modelled > 0,
                    )
                )
    return sorted(payoffs, key=lambda payoff: -payoff.speedup)
