"""How the expert policy learns: policy evaluation, gap analysis and parameter update, without a model."""

from collections.abc import Sequence
from itertools import islice
from math import exp, sqrt

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.events import Change, Noted, PriorSet
from kernelblaster.knowledge.preparation import variance
from kernelblaster.knowledge.tally import Tally
from kernelblaster.policies.expert.evaluation import evaluate_policy
from kernelblaster.policies.expert.gaps import REASONS, explain_gap
from kernelblaster.policies.policy import WORTH_SAYING, Discrepancy, Gap
from kernelblaster.records.profile import Depth
from kernelblaster.store.replay import Sample

CONTRADICTED_Z = 3.0  # standard errors between a prior and the evidence from which it is replaced
AT_ONCE = 20  # priors that one update replaces; the others wait for the next
ENOUGH = 4.0  # observations without which no prior is replaced


class ExpertLearning:
    """The learning half of `Policy`. States and their metrics are all that it reads of a profile."""

    depth: Depth = "quick"

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> Sequence[Discrepancy]:
        return evaluate_policy(fresh, earlier, theta, architecture)

    def explain(self, discrepancies: Sequence[Discrepancy], now: Content) -> Sequence[Gap]:
        return [explain_gap(found, now) for found in discrepancies if found.surprising]

    def update(self, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """A note of each new cause, and a new prior wherever the evidence contradicts the old one: what
        was observed here corrects it for this architecture, a new prior for all. The note's numbers are
        the evidence itself, so that the same finding is one note."""
        changes: list[Change] = []
        for gap in gaps:
            state, technique = gap.discrepancy.state, gap.discrepancy.technique
            entry = now.entry(state, technique)
            note = _note(gap, entry)
            if note not in entry.notes:
                changes.append(Noted(state=state, technique=technique, note=note))
        for entry in islice(filter(contradicted, now.living_entries), AT_ONCE):
            about = {"state": entry.state, "technique": entry.technique}
            predicted = exp(entry.evidence.total.mean)
            changes.append(PriorSet.model_validate(about | {"predicted": predicted, "weight": 1.0}))
        return changes


def contradicted(entry: OptimizationEntry) -> bool:
    """Whether all evidence together makes an entry's prior implausible. Where a preparation decides,
    there is no one gain that a prior could tell."""
    total = entry.evidence.total
    if total.seen < ENOUGH or entry.evidence.preparation is not None:
        return False
    apart = abs(total.mean - entry.prior)
    return apart > WORTH_SAYING and apart > CONTRADICTED_Z * sqrt(variance(total, Tally()) / total.seen)


def _note(gap: Gap, entry: OptimizationEntry) -> str:
    found = gap.discrepancy
    if found.measured is None or sum(found.failures.values()) * 2 > found.count:
        how = "Mostly failed"
    else:
        how = "Gained more than expected" if found.measured > found.expected else "Gained less than expected"
    after = f" ({entry.evidence.preparation})" if gap.cause == "needs-preparation" else ""
    return f"{how}: {REASONS[gap.cause]}{after}."
