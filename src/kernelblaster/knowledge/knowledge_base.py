"""`KnowledgeBase`: which techniques helped in which performance state. Searches look this up and add their
results."""

from uuid import uuid4

from pydantic import ValidationError
from sqlalchemy import Connection

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.consolidate import KnowledgeLimits, consolidation
from kernelblaster.knowledge.content import Content, Scored
from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import (
    KNOWLEDGE,
    Change,
    Noted,
    Observed,
    OptimizationAdded,
    Provenance,
    Result,
    StateAdded,
    effective,
)
from kernelblaster.knowledge.matching import MATCH
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.knowledge.versioned_content import NOBODY, VersionedContent
from kernelblaster.records import Optimization, State


class KnowledgeBase(VersionedContent):
    """A knowledge base in a file (SQLite) or at a URL (PostgreSQL), which many processes can use at once. The
    methods here look up techniques and record what was learned; those of `VersionedContent` read and write
    its versions. The argument `provenance` of a method that records something says where that comes from:
    which run, step, GPU and task; NOBODY if it is not known."""

    # Retrieval

    def optimizations(
        self,
        state: str,
        architecture: str | None = None,
        applied: tuple[str, ...] = (),
        family: str | None = None,
    ) -> list[Scored]:
        """Returns the techniques of a performance state that are not retired, with their predictions for a
        GPU `architecture`, after the techniques `applied`, in a `family` (kind of computation) of tasks;
        None: any architecture or family. The largest expected gain comes first. Raises KnowledgeError if the
        knowledge base has no such state."""
        return self.content().optimizations(state, architecture, applied, family)

    def match(self, state: State, provenance: Provenance = NOBODY, within: float = MATCH) -> str:
        """Returns the name of the known state that matches `state`. That is the state of the same name (or
        the one that it was merged into); if there is none, the nearest state, if its `distance` (0 is equal)
        is at most `within`. If no state is that near, `state` is added as discovered, with this provenance,
        and its own name is returned."""
        known = known_state(self.content(), state, within)
        if known is None:
            self.add_state(state, provenance, discovered=True)
        return known or state.name

    # Teaching

    def add_state(self, state: State, provenance: Provenance = NOBODY, discovered: bool = False) -> None:
        """Adds the performance state `state` under its name; does nothing if there is a state of that name.
        `discovered`: a search found it, while others come from the seed or an import. `provenance` says which
        search made the change."""
        if state.name not in self.content().states:
            self.record([StateAdded(state=state, discovered=discovered)], provenance)

    def add_optimization(
        self, state: str, optimization: Optimization, weight: float = 1.0, provenance: Provenance = NOBODY
    ) -> None:
        """Adds a technique (`optimization`) to the performance state named `state`; does nothing if the state
        has that technique. The speedup that is predicted for it counts as much as `weight` observations.
        Raises KnowledgeError if there is no such state. `provenance` says which search made the change."""
        content = self.content()
        if optimization.technique not in content.entries.get(content.resolve(state), {}):
            added = OptimizationAdded(state=state, optimization=optimization, weight=weight)
            self.record([added], provenance)

    def observe(
        self,
        state: str,
        technique: str,
        result: Result,
        provenance: Provenance = NOBODY,
        before: tuple[str, ...] = (),
    ) -> int:
        """Records the result of one attempt at `technique` in `state`, after the techniques `before` had been
        applied. `result` is the natural logarithm of the speedup of a correct candidate, or the kind of
        failure. Returns the new version of the knowledge base. Raises KnowledgeError if it does not have the
        technique in that performance state. `provenance` says which search made the attempt."""
        try:
            change = Observed(state=state, technique=technique, result=result, before=before)
        except ValidationError as error:
            message = f"{state}, {technique}: {result!r} is neither a finite log speedup nor a failure."
            raise KnowledgeError(message) from error
        return self.record([change], provenance)

    def note(
        self, state: str, note: str, technique: str | None = None, provenance: Provenance = NOBODY
    ) -> None:
        """Adds the remark `note` to a technique in a performance state, or to the state itself if `technique`
        is None. Raises KnowledgeError if the knowledge base does not have that state or technique.
        `provenance` says which search made the change."""
        self.record([Noted(state=state, technique=technique, note=note)], provenance)

    def merge(self, other: "KnowledgeBase") -> int:
        """Adds the events of the knowledge base `other` to this knowledge base, and returns how many were
        added. An event is not added if (1) this knowledge base has it, neither reverted nor rolled back, (2)
        it was reverted or rolled back in `other`, or (3) it only cleaned `other` up (merged performance
        states, retired techniques, lowered weights). `other` is not changed."""
        theirs = [event for event in effective(other.log()) if isinstance(event.change, KNOWLEDGE)]
        return self.take_over([(event.change, event.provenance, event.uid) for event in theirs])

    def consolidate(self, seed: int, limits: KnowledgeLimits | None = None) -> list[Change]:
        """Cleans up the knowledge base and returns the changes made: merges near-equal performance states,
        retires techniques that do not pay, and lowers the weight of some evidence. `limits` says when each is
        done (None: the defaults of `KnowledgeLimits`). Of the techniques with many attempts, some are drawn
        by `seed`; their evidence gets less weight."""
        done: list[Change] = []

        def tidy(_: Connection, content: Content) -> list[Fresh]:
            done.extend(consolidation(content, seed, limits or KnowledgeLimits()))
            return [(change, NOBODY, uuid4().hex) for change in done]

        self._write(tidy)
        return done
