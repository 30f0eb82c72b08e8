"""Who does what in a mixed policy, and what happens where a model is of no use."""

from typing import Any

import pytest

from kernelblaster.api import load_task
from kernelblaster.knowledge.events import Noted, Observed, Provenance
from kernelblaster.models.failures import BudgetSpent, Empty, Malformed, Refused, TooLong
from kernelblaster.models.request import ModelAnswer
from kernelblaster.policies.expert.evaluation import evaluate_policy
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.policies.llm.initial_writer import NoFirstCandidate
from kernelblaster.policies.llm.policy import MixedPolicy, Written, _Seen
from kernelblaster.policies.llm.roles import ROLES, Cast, cast_of
from kernelblaster.policies.policy import Attempt, PolicyEvaluation, Sample, Target
from kernelblaster.records import Candidate, CompileFailed, Evaluation, Incorrect
from kernelblaster.records.recipe import JOINED
from tests.policies.llm.played import ANSWERS, BROKEN, FUSED, NO_CHANGE, VECTOR, rewrite
from tests.policies.llm.questions import discrepancies
from tests.policies.llm.scenes import FLOOR_BYTES, Scripted, SessionInMemory, planted, relu, speedup_of, tried

BAD = ModelAnswer(text="no", stop="done", model="m", usage=None)
USELESS = [Malformed("no JSON", BAD), Refused("no", BAD), Empty("", BAD), TooLong("", BAD)]
ALL = Cast(dict.fromkeys(ROLES, "llm"))


class Expert(ExpertPolicy):
    """The expert without a module to capture: one technique gives one candidate."""

    def initial(self, task: Any) -> Attempt:
        from kernelblaster.policies.expert.graph import UncoveredOperators

        raise UncoveredOperators(["odd.default"])


def policy_with(
    model: Scripted, cast: Cast | None = None, session: SessionInMemory | None = None
) -> MixedPolicy:
    case, evaluation = relu()
    session = session or SessionInMemory(evaluations={case.candidate.code: evaluation})
    policy = MixedPolicy(Expert(""), cast or cast_of([])[0], model, session)
    policy.begin(case.task)
    return policy


def begun(policy: MixedPolicy) -> tuple[Attempt, Target]:
    case, _ = relu()
    attempt = Attempt(case.candidate, Written())
    return attempt, policy.targets(attempt, case.profile, FLOOR_BYTES)[0]


def test_the_usual_cast_with_a_model() -> None:
    cast, named = cast_of(["state-matcher=openai:small", "lowerer=expert"])
    played = {role for role in ROLES if cast.llm(role)}
    learning = {"policy-evaluator", "gap-analyst", "knowledge-updater"}
    assert played == {"proposer", "soft-verifier", "state-matcher", *learning}
    assert named == ["state-matcher=openai:small"]
    with pytest.raises(Exception, match="should be ROLE=expert"):
        cast_of(["cook=expert"])


def test_a_technique_is_lowered_by_the_model_once() -> None:
    model = Scripted(lowerer=rewrite(source=FUSED))
    policy = policy_with(model)
    attempt, target = begun(policy)
    for _ in range(2):
        (move,) = policy.moves(attempt, "kernel_fusion", target)
        assert move.candidate.source == FUSED and move.candidate.origin == "llm: kernel_fusion"
    assert model.asked == ["lowerer"]


def test_edits_that_do_not_fit_are_refused_once_with_the_reason() -> None:
    wrong = rewrite(edits=[{"search": "no such line", "replace": ""}])
    model = Scripted(lowerer=[wrong, rewrite(source=FUSED)])
    policy = policy_with(model)
    attempt, target = begun(policy)
    (move,) = policy.moves(attempt, "kernel_fusion", target)
    assert move.candidate.source == FUSED
    assert "edit 1: the block does not occur in the source: 'no such line'" in model.prompt()
    stubborn = Scripted(lowerer=wrong)
    policy = policy_with(stubborn)
    attempt, target = begun(policy)
    assert not list(policy.moves(attempt, "kernel_fusion", target)) and len(stubborn.asked) == 2


def test_edits_change_the_source_to_the_letter() -> None:
    model = Scripted(lowerer=rewrite(edits=VECTOR))
    policy = policy_with(model)
    attempt, target = begun(policy)
    fused = Attempt(Candidate(source=FUSED), Written())
    policy._seen[fused.candidate.code] = policy._seen[attempt.candidate.code]
    (move,) = policy.moves(fused, "vectorized_memory_access", target)
    assert "float4 v = *(const float4*)(x + at);" in move.candidate.source
    assert "(n + 1023) / 1024" in move.candidate.source and "if (i < n)" not in move.candidate.source


@pytest.mark.parametrize("failure", USELESS, ids=lambda failure: type(failure).__name__)
def test_without_a_usable_answer_the_expert_takes_the_role(failure: Exception) -> None:
    model = Scripted(**{role.replace("-", "_"): failure for role in ROLES})
    policy = policy_with(model, ALL)
    attempt, target = begun(policy)
    assert target.state.name == "latency/intermediate-traffic"
    assert not list(policy.moves(attempt, "unrolling", target))
    assert "unrolling" not in policy.proposals(attempt, target)
    case, evaluation = relu()
    found = policy.evaluate([], [], planted(), "sm_90a")
    results = PolicyEvaluation(discrepancies(case, evaluation))
    gaps = policy.explain(results, planted())
    assert found == PolicyEvaluation([])
    assert [gap.cause for gap in gaps] == ["bottleneck-stayed", "compile-error"]
    assert [c.kind for c in policy.update(results, gaps, planted())] == ["noted", "noted"]
    assert policy.review(Candidate(source=FUSED)).verdict == "nothing-found"
    counted = policy.scene.asker.failures
    assert sum(counted.values()) == len(model.asked)
    assert {kind for _, kind in counted} == {type(failure).__name__}


def test_a_first_candidate_that_the_model_does_not_write_is_the_experts() -> None:
    task = load_task("core/level1/relu")
    model = Scripted(initial_writer=USELESS[0])
    covering = MixedPolicy(ExpertPolicy(), ALL, model, SessionInMemory())
    assert covering.initial(task).candidate.origin == "expert: initial"
    assert sum(covering.scene.asker.failures.values()) == 1
    with pytest.raises(NoFirstCandidate):
        MixedPolicy(Expert(""), ALL, model, SessionInMemory()).initial(task)


@pytest.mark.parametrize("failure", USELESS, ids=lambda failure: type(failure).__name__)
def test_a_technique_that_the_model_does_not_lower_is_lowered_by_the_expert(failure: Exception) -> None:
    policy = MixedPolicy(ExpertPolicy(), cast_of([])[0], Scripted(lowerer=failure), SessionInMemory())
    attempt = policy.initial(load_task("core/level1/relu"))
    policy._seen[attempt.candidate.code] = _Seen(relu()[0].profile, FLOOR_BYTES)
    target = Target(attempt.form.kernels[0].name, 1.0, relu()[0].target.state)
    first = next(policy.moves(attempt, "vectorized_memory_access", target))
    assert first.candidate.origin == "expert: vectorized_memory_access"
    assert sum(policy.scene.asker.failures.values()) == 1


def test_a_spent_budget_is_no_answer_of_the_model() -> None:
    policy = policy_with(Scripted(lowerer=BudgetSpent("all gone")))
    attempt, target = begun(policy)
    with pytest.raises(BudgetSpent):
        list(policy.moves(attempt, "unrolling", target))
    assert {kind for kind, _ in policy._session.events} == {"question"}  # type: ignore[attr-defined]


def test_a_failed_lowering_is_mended_by_what_was_said() -> None:
    model = Scripted(lowerer=[rewrite(source=BROKEN), rewrite(source=FUSED)])
    policy = policy_with(model)
    attempt, target = begun(policy)
    (move,) = policy.moves(attempt, "kernel_fusion", target)
    log = 'candidate.cu(3): error: identifier "zero" is undefined\n\n1 error detected\n'
    outcome = CompileFailed(reason="candidate.cu(3): error", log=log)
    failed = relu()[1].model_copy(update={"outcome": outcome})
    again = policy.retry(attempt, "kernel_fusion", move, failed)
    assert again is not None and again.candidate.source == FUSED
    prompt = model.prompt()
    assert 'line 3: identifier "zero" is undefined' in prompt
    assert "if (i < n) out[i] = (x[i] < zero ? zero : x[i]) * 2.0f + 1.0f;" in prompt.split("</data")[0]
    evidence = "odd workload, values written: worst at out[3, 5]: expected 7.8, got 9.5"
    wrong = failed.model_copy(update={"outcome": Incorrect(reason="wrong values", evidence=evidence)})
    policy.retry(attempt, "kernel_fusion", again, wrong)
    assert "worst at out[3, 5]: expected 7.8, got 9.5" in model.prompt()


def test_what_a_model_finds_impossible_is_evidence_and_ends_after_three() -> None:
    model = Scripted(lowerer=NO_CHANGE)
    policy = policy_with(model)
    attempt, target = begun(policy)
    for technique in ("unrolling", "block_shape", "kernel_fusion", "cache_hints", "fast_math"):
        assert not list(policy.moves(attempt, technique, target))
    assert len(model.asked) == 3
    named = Target("relu_kernel", 1.0, target.state.model_copy(update={"name": "latency"}))
    policy._declined.clear()
    policy._inapplicable.clear()
    list(policy.moves(attempt, "thread_coarsening", named))
    nothing = PolicyEvaluation([])
    (change,) = policy.update(nothing, [], planted())
    expected = Observed(state="latency", technique="thread_coarsening", result="Inapplicable")
    assert change == expected and not policy.update(nothing, [], planted())


def test_the_proposer_adds_to_what_is_known_and_says_what_cannot_be() -> None:
    told = {**ANSWERS["proposer"](""), "inapplicable": ["double_buffering"]}
    told["proposals"] *= 2
    model = Scripted(proposer=told)
    session = SessionInMemory()
    policy = policy_with(model, session=session)
    attempt, target = begun(policy)
    target = Target("relu_kernel", 1.0, target.state.model_copy(update={"name": "latency"}))
    names = policy.proposals(attempt, target)
    assert names[0] == "whole_call_fusion" and "double_buffering" not in names
    assert [o.predicted for o in session.offered] == [2.5]
    assert policy.proposals(attempt, target) == names and model.asked == ["proposer"]


def test_the_proposer_is_asked_again_when_all_it_offered_is_used_up() -> None:
    """And what it said cannot be holds for the source that it saw, not for the next one."""
    first = {**ANSWERS["proposer"](""), "inapplicable": ["double_buffering"]}
    more = {"technique": "asynchronous_tiles", "description": "Copy ahead.", "predicted": 1.5, "reason": "r"}
    model = Scripted(proposer=[first, {"proposals": [more]}, {"proposals": []}])
    policy = policy_with(model)
    attempt, target = begun(policy)
    target = Target("relu_kernel", 1.0, target.state.model_copy(update={"name": "latency"}))
    assert "double_buffering" not in policy.proposals(attempt, target)
    again = policy.proposals(attempt, target, again=1)
    assert "asynchronous_tiles" in again and "whole_call_fusion" in again  # the latter still untried
    assert "Everything that was offered for this source has been tried" in model.prompt(1)
    assert "Proposed before and not tried here yet: whole_call_fusion." in model.prompt(1)
    changed = Attempt(Candidate(source=attempt.candidate.source.replace("? 0 :", "? 0.0f :")), Written())
    policy._seen[changed.candidate.code] = policy._seen[attempt.candidate.code]
    elsewhere = Target("relu_kernel", 1.0, target.state.model_copy(update={"name": "bank-conflicts"}))
    later = policy.proposals(changed, elsewhere)
    assert {"whole_call_fusion", "asynchronous_tiles"} <= set(later)  # untried: still on offer
    assert "double_buffering" in policy.proposals(changed, target, again=2)


def test_a_prediction_is_only_bounded_by_the_floor() -> None:
    told = ANSWERS["proposer"]("")
    for predicted, kept in ((6.0, 6.0), (40.0, relu()[1].timing.candidate_us / relu()[1].timing.floor_us)):
        told["proposals"][0]["predicted"] = predicted
        session = SessionInMemory(evaluations={relu()[0].candidate.code: relu()[1]})
        policy = policy_with(Scripted(proposer=told), session=session)
        policy.proposals(*begun(policy))
        assert [o.predicted for o in session.offered] == [pytest.approx(kept)]
    unjudged = SessionInMemory()
    policy = policy_with(Scripted(proposer=told), session=unjudged)
    policy.proposals(*begun(policy))
    assert [o.predicted for o in unjudged.offered] == [40.0]


def test_techniques_that_belong_together_are_lowered_in_one_rewrite() -> None:
    told = ANSWERS["proposer"]("")
    told["together"] = {"techniques": ["whole_call_fusion", "unrolling"], "predicted": 5.0}
    left_out = rewrite(source=FUSED, not_applied=["unrolling"])
    model = Scripted(proposer=told, lowerer=left_out)
    policy = policy_with(model)
    attempt, target = begun(policy)
    recipe = JOINED.join(("unrolling", "whole_call_fusion"))
    assert recipe in policy.proposals(attempt, target)
    (move,) = policy.moves(attempt, recipe, target)
    assert move.candidate.source == FUSED and move.applied == ("whole_call_fusion",)
    prompt = model.prompt()
    assert "all of these techniques together, in one rewrite" in prompt
    assert "One kernel for the call." in prompt and "Repeat the body of an inner loop" in prompt


def test_a_state_that_is_known_to_pay_needs_no_proposer() -> None:
    session = SessionInMemory()
    for technique in ("thread_coarsening", "block_shape", "unrolling"):
        seen = Observed(state="latency", technique=technique, result=0.4)
        session.content.apply(seen, Provenance(architecture="sm_90a"))
    model = Scripted()
    policy = policy_with(model, session=session)
    attempt, target = begun(policy)
    target = Target("relu_kernel", 1.0, target.state.model_copy(update={"name": "latency"}))
    assert {"thread_coarsening", "block_shape", "unrolling"} <= set(policy.proposals(attempt, target))
    assert model.asked == []


def test_states_by_a_model_keep_what_was_measured() -> None:
    answers = {role.replace("-", "_"): answer("") for role, answer in ANSWERS.items() if role in ROLES}
    policy = policy_with(Scripted(**answers), ALL)
    case, _ = relu()
    targets = policy.targets(Attempt(case.candidate, Written()), case.profile, FLOOR_BYTES)
    named = {target.kernel: target.state for target in targets}
    measured = {k.kernel: k.state for k in extract_states(case.profile, FLOOR_BYTES)}
    relu_state = named["relu_kernel"]
    assert relu_state.name == "memory-bandwidth"  # by the matcher; by the extractor, with many-passes
    assert relu_state.secondary == ("many-passes",) and relu_state.description == "It moves bytes."
    assert relu_state.metrics == measured["_Z11relu_kernelPfPKfll"].metrics
    assert named["mul_kernel"].metrics == measured["_Z10mul_kernelPfPKfll"].metrics


def test_a_state_that_the_matcher_makes_up_is_none() -> None:
    policy = policy_with(
        Scripted(state_matcher={"name": "my-own", "reason": ""}), cast_of(["state-matcher=llm"])[0]
    )
    assert begun(policy)[1].state.name == "latency/intermediate-traffic"


def test_a_model_explains_and_notes_but_numbers_stay_measured() -> None:
    case, evaluation = relu()
    answers = {role.replace("-", "_"): answer("") for role, answer in ANSWERS.items() if role in ROLES}
    policy = policy_with(Scripted(**answers), ALL)
    found = discrepancies(case, evaluation)
    results = PolicyEvaluation(found)
    gaps = policy.explain(results, planted())
    assert gaps[0].sentence == "Fewer bytes." and gaps[0].discrepancy is found[0]
    assert gaps[1].cause == "compile-error"  # by the expert: the model left it out
    change, other = policy.update(results, gaps, planted())
    assert isinstance(change, Noted) and change.note.startswith("Fuse pointwise chains first")
    assert isinstance(other, Noted) and other.note == "Mostly failed: the code did not compile."


def judged(source: str) -> Evaluation:
    outcome: Any = relu()[1].outcome
    if source == BROKEN:
        outcome = CompileFailed(reason="undefined", log="candidate.cu(3): error: zero is undefined")
    return relu()[1].model_copy(update={"outcome": outcome})


def test_the_first_candidate_is_mended_until_the_judge_has_no_complaint() -> None:
    model = Scripted(initial_writer=[{"summary": "", "source": BROKEN}, rewrite(source=FUSED)])
    policy = policy_with(model, session=SessionInMemory(verdict=lambda candidate: judged(candidate.source)))
    attempt = policy.initial(relu()[0].task)
    assert attempt.candidate.source == FUSED and attempt.candidate.origin == "llm: initial"
    hopeless = [{"summary": "", "source": BROKEN}, *(rewrite(source=f"{BROKEN}//{n}\n") for n in range(9))]
    session = SessionInMemory(verdict=lambda candidate: judged(BROKEN))
    with pytest.raises(Exception, match="did not write a correct first candidate: It does not compile"):
        policy_with(Scripted(initial_writer=hopeless), session=session).initial(relu()[0].task)
    assert len(session.evaluations) == 4


def test_a_cuda_task_begins_with_its_own_kernel() -> None:
    task = relu()[0].task.model_copy(update={"kind": "cuda", "source": FUSED})
    assert policy_with(Scripted()).initial(task).candidate.source == FUSED


def test_a_cuda_task_is_rewritten_by_the_model_and_by_the_expert() -> None:
    case, _ = relu()
    source = case.candidate.source
    task = case.task.model_copy(update={"kind": "cuda", "source": source})
    model = Scripted(lowerer=rewrite(source=FUSED))
    policy = policy_with(model, cast_of(["proposer=expert"])[0])
    attempt = policy.initial(task)
    target = policy.targets(attempt, case.profile, FLOOR_BYTES)[0]
    assert "grid_stride" in policy.proposals(attempt, target)
    first, *others = policy.moves(attempt, "grid_stride", target)
    assert first.candidate.origin == "llm: grid_stride" and source.splitlines()[0] in model.prompt()
    assert [other.candidate.origin for other in others] == ["expert: grid_stride"] * 4
    assert others[1].changed == {target.kernel} < others[0].changed
    failed = judged(BROKEN)
    assert policy.retry(attempt, "grid_stride", others[0], failed) == others[1]


def test_what_was_tried_here_is_told() -> None:
    case, evaluation = relu()
    session = SessionInMemory(evaluations={case.candidate.code: evaluation})
    session.steps = [tried(case.candidate, "unrolling", speedup_of(1.04), kernel="relu_kernel")]
    model = Scripted(lowerer=NO_CHANGE)
    policy = policy_with(model, session=session)
    attempt, target = begun(policy)
    list(policy.moves(attempt, "block_shape", target))
    assert "- unrolling, on this source: 1.04x (expected 1.50x)" in model.prompt()


def test_what_was_done_is_told_to_those_who_come_after() -> None:
    """By the next lowerer, on which candidate it was; and by the gap analyst."""
    case, evaluation = relu()
    session = SessionInMemory(evaluations={case.candidate.code: evaluation})
    fused = rewrite(source=FUSED, summary="One pass over memory.", also_changed=["unrolling"])
    explained = ANSWERS["gap-analyst"]("")
    model = Scripted(lowerer=[fused, NO_CHANGE], gap_analyst=explained)
    policy = policy_with(model, session=session)
    attempt, target = begun(policy)
    (move,) = policy.moves(attempt, "kernel_fusion", target)
    step = tried(case.candidate, "kernel_fusion", speedup_of(2.0), kernel="relu_kernel", taken=True)
    step = step.model_copy(update={"child": move.candidate.code})
    session.steps = [step]
    done = "One pass over memory. (also: unrolling)"
    policy._seen[move.candidate.code] = policy._seen[attempt.candidate.code]
    for place, where in ((attempt, "on this source"), (move, "on the way to this source")):
        list(policy.moves(place, "block_shape", target))
        assert f"- kernel_fusion, {where}: 2.00x (expected 1.50x). Done: {done}" in model.prompt()
    sample = Sample(step, evaluation, evaluation, FLOOR_BYTES)
    policy.explain(PolicyEvaluation(evaluate_policy([sample], [], planted(), "sm_90a")), planted())
    assert f"done: {done}\n" in model.prompt() and "registers 10 to 10" in model.prompt()


def test_a_question_stays_as_it_was_asked_first() -> None:
    """So that what was answered meanwhile is found, whatever others taught the knowledge base."""
    case, evaluation = relu()
    session = SessionInMemory(evaluations={case.candidate.code: evaluation})
    digests = []
    for _ in range(2):
        model = Scripted(lowerer=BudgetSpent("all gone"))
        policy = policy_with(model, session=session)
        attempt, target = begun(policy)
        with pytest.raises(BudgetSpent):
            list(policy.moves(attempt, "thread_coarsening", target))
        digests.append(model.requests[0].digest)
        learned = Observed(state="latency", technique="thread_coarsening", result=0.4)
        session.content.apply(learned, Provenance(architecture="sm_90a"))
    assert digests[0] == digests[1]
