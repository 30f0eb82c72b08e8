"""How a search with a language model learns: compares results with expectations (policy evaluation), explains
differences (gap analysis) and changes the knowledge base (parameter update), each by the model or by the
rules of the built-in expert policy."""

from collections.abc import Sequence
from dataclasses import replace

from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Change, Observed
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.policies.expert.learning import ExpertLearning
from kernelblaster.policies.llm.gap_analyst import explain_by_model
from kernelblaster.policies.llm.knowledge_updater import changes_of, update_by_model
from kernelblaster.policies.llm.policy_evaluator import evaluate_by_model
from kernelblaster.policies.llm.roles import Cast
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.policy import Gap, PolicyEvaluation
from kernelblaster.records import State
from kernelblaster.store.replay import Sample


class MixedLearning:
    """How a policy with a language model learns: the methods `evaluate`, `explain` and `update` of `Policy`.
    The model plays those of the three learning roles (policy evaluator, gap analyst, knowledge updater) that
    `cast` gives it. The rules of the built-in policy (`expert`) play the others, and step in where the model
    has no usable answer."""

    def __init__(self, expert: ExpertLearning, cast: Cast) -> None:
        self._expert = expert
        self._cast = cast

    def evaluate(
        self,
        scene: Scene,
        fresh: Sequence[Sample],
        earlier: Sequence[Sample],
        theta: Content,
        architecture: str,
    ) -> PolicyEvaluation:
        """Returns, by the rules of the built-in expert policy, how far the gains of attempts differ from the
        expected gains. `fresh` are the attempts of this iteration, `earlier` those of the replay buffer
        (earlier runs). Expectations are those of the knowledge base `theta` on the GPU `architecture` (such
        as `sm_90a`). If the model plays the policy evaluator, only the differences that it selects are
        returned, with its remark. `scene` is the context for its prompt."""
        found = self._expert.evaluate(fresh, earlier, theta, architecture)
        if not self._cast.llm("policy-evaluator"):
            return found
        return evaluate_by_model(scene, found.discrepancies, f"version {theta.version}")

    def explain(self, scene: Scene, evaluation: PolicyEvaluation, now: Content) -> Sequence[Gap]:
        """Returns an explanation (gap) for each surprising difference between expected and measured gain in
        `evaluation`: a cause, a sentence for people, the metrics that changed, and a lesson to remember. The
        model explains if it plays the gap analyst, else the rules of the built-in expert policy do. `scene`
        is the context for the prompt, `now` the current knowledge base."""
        if not self._cast.llm("gap-analyst"):
            return self._expert.explain(evaluation, now)
        return explain_by_model(scene, evaluation, now, f"version {now.version}")

    def update(
        self, scene: Scene, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content
    ) -> list[Change]:
        """Returns the changes to make to the knowledge base `now`. If the model plays the knowledge updater,
        they are its changes. Those by the rules of the built-in expert policy are added for what the model
        left out: new priors, the lessons of `gaps` on which it wrote no note, and the evaluation's remark for
        performance states on which it wrote none. If the model does not play that role, or has no usable
        answer, all changes are by the rules. `scene` is the context for the prompt."""
        asked = self._cast.llm("knowledge-updater")
        answer = update_by_model(scene, evaluation, gaps, now, f"version {now.version}") if asked else None
        if answer is None:
            return list(self._expert.update(evaluation, gaps, now))
        mine = {note.number for note in answer.notes}
        rest = [gap for number, gap in enumerate(gaps) if number not in mine]
        named = {note.number for note in answer.state_notes if 0 <= note.number < len(gaps)}
        states = {now.resolve(gaps[number].discrepancy.state) for number in named}
        others = [d for d in evaluation.discrepancies if now.resolve(d.state) not in states]
        left = replace(evaluation, discrepancies=others)
        return [*changes_of(answer, gaps, now), *self._expert.update(left, rest, now)]


def inapplicable(declined: dict[tuple[str, str], State], now: Content) -> list[Change]:
    """Returns changes to the knowledge base `now` by which techniques that the model declined count as failed
    attempts of the kind `Inapplicable`. The model declines a technique that cannot be applied to the code
    that it was shown. `declined` maps (name of a performance state, technique) to the state. Techniques that
    the knowledge base does not have in that state are left out."""
    changes: list[Change] = []
    for (_, technique), state in declined.items():
        name = known_state(now, state)
        if name is not None and technique in now.entries.get(name, {}):
            changes.append(Observed(state=name, technique=technique, result="Inapplicable"))
    return changes
