"""Statistics of a knowledge base, and search for techniques by words."""

from collections import defaultdict
from collections.abc import Iterable
from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.tally import total
from kernelblaster.records.record import Record


class Payoff(Record):
    """The mean speedup of a technique in a state when another technique (`after`) had been applied before it,
    and without that (None if never observed). `count` is the number of valid attempts behind the former;
    `modelled`: their times come from a model of a GPU, and no attempt at this technique was measured."""

    state: str
    technique: str
    after: str
    speedup: float
    speedup_without: float | None
    count: float
    modelled: bool = False


class KnowledgeSummary(Record):
    """How much a knowledge base has. States that were merged do not count. `retired` and `untried` count
    techniques; `failures` counts attempts by kind of failure, `evidence` by architecture, `families` by task
    family; `payoffs` are pairs of techniques with the largest speedups of one after the other, best first."""

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
    """Techniques for which every one of the words occurs in the state's name or description, or the
    technique's name, title, description, preconditions or notes, in upper or lower case."""
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
    """The statistics of a content, with at most `payoffs` pairs of techniques of which one was applied after
    the other."""
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
