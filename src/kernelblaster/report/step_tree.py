"""The steps of a run as a tree, for pages that must show it before any script has run, and on paper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

from kernelblaster.bench.tables import times
from kernelblaster.quantities import kind_text
from kernelblaster.records import Step
from kernelblaster.report.trajectory import CHILD, PARENT, Detail


@dataclass(frozen=True)
class TreeBranch:
    """A candidate and the step that led to it, as texts: `title` is the technique (or says that it is a first
    candidate), `gain` the speedup over its parent, `failure` why there is none, `time` its time. `best`: it
    is on the way to the best candidate; `taken`: a rollout went on from it. `below` are the steps from it."""

    title: str
    state: str
    gain: str
    predicted: str
    failure: str
    time: str
    best: bool
    taken: bool
    below: "tuple[TreeBranch, ...]"


def step_tree(detail: Detail, *, modelled: bool) -> tuple[TreeBranch, ...]:
    """The tree of a run: the candidates that were written from nothing, and below each what was made of it. A
    candidate that several steps led to has its branches below the first of them. `modelled` marks times."""
    numbered = [(step, row[PARENT], row[CHILD]) for step, row in _pairs(detail)]
    came_from: dict[int, int | None] = {}
    for _, parent, child in numbered:
        if child is not None:
            came_from.setdefault(child, parent)
    return _Tree(detail.page, numbered, came_from, kind_text(modelled)).roots()


class _Tree:
    """A run's steps as (step, parent's number, child's number), with its candidates, while the tree is made.
    `drawn` are the candidates that are in the tree already; `kind` follows each time."""

    def __init__(
        self,
        page: dict[str, Any],
        steps: Sequence[tuple[Step, int | None, int | None]],
        came_from: dict[int, int | None],
        kind: str,
    ) -> None:
        self._candidates = page["candidates"]
        self._steps = steps
        self._kind = kind
        self._first = [number for number in range(len(self._candidates)) if number not in came_from]
        self._drawn = set(self._first)
        self._way: set[int] = set()
        at = page["best"]
        while at is not None and at not in self._way:
            self._way.add(at)
            at = came_from.get(at)

    def roots(self) -> tuple[TreeBranch, ...]:
        return tuple(self._root(number) for number in self._first)

    def _root(self, number: int) -> TreeBranch:
        return TreeBranch(
            title="first candidate" if number == 0 else f"candidate {number + 1}, from nothing",
            state="",
            gain="",
            predicted="",
            failure="" if "us" in self._candidates[number] else self._candidates[number]["outcome"],
            time=self._time(number),
            best=number in self._way,
            taken=False,
            below=self._below(number),
        )

    def _below(self, number: int) -> tuple[TreeBranch, ...]:
        """The steps from a candidate; one that was walked twice is there once."""
        own = {(child, step.technique): step for step, parent, child in self._steps[::-1] if parent == number}
        return tuple(self._branch(step, child) for (child, _), step in reversed(own.items()))

    def _branch(self, step: Step, child: int | None) -> TreeBranch:
        first = child is not None and child not in self._drawn
        if first and child is not None:
            self._drawn.add(child)
        return TreeBranch(
            title=step.technique,
            state=step.state,
            gain="" if step.log_speedup is None else times(exp(step.log_speedup)),
            predicted=times(step.predicted),
            failure=step.failure or "",
            time="" if child is None else self._time(child),
            best=first and child in self._way,
            taken=step.taken,
            below=self._below(child) if first and child is not None else (),
        )

    def _time(self, number: int) -> str:
        """A candidate's time with its unit; empty if it was not timed."""
        us = self._candidates[number].get("us")
        return "" if us is None else f"{us:,g} us{self._kind}"


def _pairs(detail: Detail) -> Iterator[tuple[Step, list[Any]]]:
    """The steps with what the page's data have of each."""
    return zip(detail.steps, detail.page["steps"], strict=True)
