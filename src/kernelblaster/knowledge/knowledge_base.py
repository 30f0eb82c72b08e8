"""`KnowledgeBase`: which techniques helped in which performance state; searches look this up and add their
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
    """A knowledge base in a file (SQLite) or at a URL (PostgreSQL), usable by many processes at once.
    `VersionedContent` stores it; the methods here look up techniques and record what was learned."""

    # Retrieval

    def optimizations(
        self,
        state: str,
        architecture: str | None = None,
        applied: tuple[str, ...] = (),
        family: str | None = None,
    ) -> list[Scored]:
        """The techniques of a state that are not retired, with their predictions for a GPU architecture,
        after the techniques `applied`, in a family of tasks (None: any); largest expected gain first."""
        return self.content().optimizations(state, architecture, applied, family)

    def match(self, state: State, provenance: Provenance = NOBODY, within: float = MATCH) -> str:
        """The name of the known state that counts as `state`: the one of the same name, else the nearest
        within the distance `within`. If there is none, `state` is added as discovered, with this provenance,
        and its name returned."""
        known = known_state(self.content(), state, within)
        if known is None:
            self.add_state(state, provenance, discovered=True)
        return known or state.name

    # Teaching

    def add_state(self, state: State, provenance: Provenance = NOBODY, discovered: bool = False) -> None:
        """Adds a performance state under its name; does nothing if a state of that name is known.
        `discovered`: a search met it; it is not from the seed or an import."""
        if state.name not in self.content().states:
            self.record([StateAdded(state=state, discovered=discovered)], provenance)

    def add_optimization(
        self, state: str, optimization: Optimization, weight: float = 1.0, provenance: Provenance = NOBODY
    ) -> None:
        """Adds a technique (`optimization`) to a known state; one that is there is not changed. Its predicted
        speedup counts as `weight` observations."""
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
        """Record the result of one attempt at `technique` in `state`, after the techniques `before`.
        `result` is the log speedup of a correct candidate, or the kind of failure. Returns the new
        version. Raises KnowledgeError if the technique is not known in that state."""
        try:
            change = Observed(state=state, technique=technique, result=result, before=before)
        except ValidationError as error:
            message = f"{state}, {technique}: {result!r} is neither a finite log speedup nor a failure."
            raise KnowledgeError(message) from error
        return self.record([change], provenance)

    def note(
        self, state: str, note: str, technique: str | None = None, provenance: Provenance = NOBODY
    ) -> None:
        """Adds a remark to a state or, if `technique` is given, to that technique in the state. Raises
        KnowledgeError if either is unknown."""
        self.record([Noted(state=state, technique=technique, note=note)], provenance)

    def merge(self, other: "KnowledgeBase") -> int:
        """Import the events of another knowledge base that this one does not have; returns how many. Its
        tidying (merged states, retired techniques, weights) is not imported."""
        theirs = [event for event in effective(other.log()) if isinstance(event.change, KNOWLEDGE)]
        return self.take_over([(event.change, event.provenance, event.uid) for event in theirs])

    def consolidate(self, seed: int, limits: KnowledgeLimits | None = None) -> list[Change]:
        """Tidies the knowledge base within `limits` (None: the usual ones): merges near-equal states, retires
        techniques that do not pay, lowers the weight of evidence; returns the changes made. `seed` chooses
        whose weight is lowered."""
        done: list[Change] = []

        def tidy(_: Connection, content: Content) -> list[Fresh]:
            done.extend(consolidation(content, seed, limits or KnowledgeLimits()))
            return [(change, NOBODY, uuid4().hex) for change in done]

        self._write(tidy)
        return done
