"""How the built-in policy learns without a language model: policy evaluation, gap analysis, and changes to
the knowledge base."""

from collections.abc import Sequence
from itertools import islice
from math import exp, sqrt

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.events import Change, Noted, PriorSet, Revised
from kernelblaster.knowledge.preparation import variance
from kernelblaster.knowledge.tally import Tally
from kernelblaster.policies.expert.evaluation import evaluate_policy
from kernelblaster.policies.expert.gaps import REASONS, explain_gap
from kernelblaster.policies.policy import WORTH_SAYING, Attempt, Gap, PolicyEvaluation
from kernelblaster.records.profile import Depth
from kernelblaster.store.replay import Sample

CONTRADICTED_Z = 3.0  # standard errors between a prior and the measured gains beyond which it is replaced
AT_ONCE = 20  # priors that one update replaces; the others wait for the next
ENOUGH = 4.0  # observations without which no prior is replaced
MOST_NOTES = 8  # on one technique in a state, or on a state
REMARKED = 2  # states that the remark on an iteration is noted in


class ExpertLearning:
    """The methods of `Policy` (policies/policy.py) that compare results with expectations, explain the
    differences and change the knowledge base, here by fixed rules. `depth` is how much a profile must
    contain: "quick", since only the kernels' performance states and their metrics are used."""

    depth: Depth = "quick"

    def summary(self, attempt: Attempt) -> str:
        return ""

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> PolicyEvaluation:
        return PolicyEvaluation(evaluate_policy(fresh, earlier, theta, architecture))

    def explain(self, evaluation: PolicyEvaluation, now: Content) -> Sequence[Gap]:
        return [explain_gap(found, now) for found in evaluation.discrepancies if found.surprising]

    def update(self, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """Returns the changes to make in the knowledge base `now`. There are three kinds:

        - The lesson of each gap (why a gain differed from what was expected) becomes a note on its technique
          in its state. A gap without a lesson gives a standard sentence on its cause, so that equal findings
          give one note.
        - The remark of `evaluation`, if it has one, becomes a note on the states of its discrepancies, at
          most the first two.
        - Entries (techniques in states) whose measured outcomes contradict their priors (predicted speedups)
          get a new prior: the mean measured speedup, which counts as one observation. At most 20 at a time.
        """
        changes: list[Change] = []
        for gap in gaps:
            entry = now.entry(gap.discrepancy.state, gap.discrepancy.technique)
            changes += noted(now, gap.discrepancy.state, gap.lesson or _note(gap, entry), entry.technique)
        states = dict.fromkeys(now.resolve(found.state) for found in evaluation.discrepancies)
        for state in list(states)[:REMARKED] if evaluation.remark else ():
            changes += noted(now, state, evaluation.remark)
        for entry in islice(filter(contradicted, now.living_entries), AT_ONCE):
            about = {"state": entry.state, "technique": entry.technique}
            predicted = exp(entry.evidence.total.mean)
            changes.append(PriorSet.model_validate(about | {"predicted": predicted, "weight": 1.0}))
        return changes


def noted(now: Content, state: str, note: str, technique: str | None = None) -> list[Change]:
    """Returns the change that adds `note` to a performance state in the knowledge base `now`; with
    `technique`, to that technique in the state. The list is empty if the note is there already. At most eight
    notes are kept (MOST_NOTES): a ninth replaces the oldest."""
    name = now.resolve(state)
    notes = now.states[name].notes if technique is None else now.entry(name, technique).notes
    if note in notes:
        return []
    if len(notes) < MOST_NOTES:
        return [Noted(state=name, technique=technique, note=note)]
    return [Revised(state=name, technique=technique, notes=(*notes[1 - MOST_NOTES :], note))]


def contradicted(entry: OptimizationEntry) -> bool:
    """True if the measured outcomes of an entry (a technique in a performance state) make its prior
    (predicted speedup) implausible: their mean speedup differs from it by more than 10 % (WORTH_SAYING) and
    by more than three standard errors (CONTRADICTED_Z). Always False with fewer than four outcomes (ENOUGH),
    and if the gain depends on which technique was applied before, since no single prior could express
    that."""
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
