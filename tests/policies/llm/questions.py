"""The question of every role for one case, as it would be asked in a search."""

from dataclasses import replace
from typing import Any

from kernelblaster.models.request import Request
from kernelblaster.policies.expert.evaluation import evaluate_policy
from kernelblaster.policies.expert.gaps import explain_gap
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.policies.llm.asker import Question, request_of
from kernelblaster.policies.llm.gap_analyst import analyst_question
from kernelblaster.policies.llm.initial_writer import draft_question
from kernelblaster.policies.llm.knowledge_updater import updater_question
from kernelblaster.policies.llm.lowerer import Lowering, lower, mend_lowering
from kernelblaster.policies.llm.plain_rewriter import Draft, plain_question
from kernelblaster.policies.llm.policy_evaluator import evaluator_question
from kernelblaster.policies.llm.proposer import Inquiry, proposer_question
from kernelblaster.policies.llm.soft_verifier import verifier_question
from kernelblaster.policies.llm.state_extractor import extractor_question
from kernelblaster.policies.llm.state_matcher import match_by_model
from kernelblaster.policies.policy import Discrepancy, PolicyEvaluation, Sample
from kernelblaster.records import Candidate, CompileFailed, Evaluation, State
from tests.policies.llm.played import FUSED, NO_CHANGE
from tests.policies.llm.scenes import (
    FLOOR_BYTES,
    Case,
    Scripted,
    SessionInMemory,
    planted,
    relu,
    scene_of,
    speedup_of,
    tried,
)

UNKNOWN = State(
    name="latency/odd", primary="latency", secondary=("odd",), description="Odd.", metrics={"dram": 0.1}
)
FAILED = CompileFailed(
    reason="candidate.cu(3): error",
    log='candidate.cu(3): error: identifier "zero" is undefined\n',
)


def questions(case: Case) -> dict[str, Request[Any]]:
    """By role; `mend`, `minimal` and `cycles-only` too."""
    evaluation = relu()[1].model_copy(update={"profile": case.profile})
    modelled = case.profile.tier == "modelled"
    session = SessionInMemory(modelled=modelled, evaluations={case.candidate.code: evaluation})
    session.steps = [
        tried(case.candidate, "unrolling", speedup_of(1.02), kernel=case.target.kernel),
        tried(case.candidate, "block_shape", "CompileFailed", kernel=case.target.kernel, child="gone"),
    ]
    session.sources = {case.candidate.code: case.candidate.source, "a": f"// {case.target.kernel}\n"}
    session.evaluations["gone"] = evaluation.model_copy(update={"outcome": FAILED, "profile": None})
    model = Scripted(lowerer=NO_CHANGE, state_matcher={"name": "", "reason": ""})
    scene = scene_of(case, session, model)
    lowering = Lowering(case.candidate, "thread_coarsening", case.target, case.profile, FLOOR_BYTES)
    lower(scene, lowering, {})
    mend_lowering(
        scene, lowering, Candidate(source=FUSED), "It does not compile:\n- line 3: zero is undefined"
    )
    match_by_model(scene, UNKNOWN)
    lowered, mended, matched = model.requests
    found = discrepancies(case, evaluation)
    results = PolicyEvaluation(found, "Techniques that add work to a thread did not pay.")
    gaps = [explain_gap(one, planted()) for one in found]
    plain = Draft("0/0/0/0", case.candidate, case.profile)
    inquiry = Inquiry(case.candidate, case.target, case.profile, FLOOR_BYTES)
    blind = replace(scene, detail="cycles")
    seen = blind.visible(case.profile)
    unmeasured = max(extract_states(seen, FLOOR_BYTES), key=lambda kernel: kernel.share).state
    target = replace(case.target, state=unmeasured)
    asked: dict[str, Question[Any]] = {
        "initial-writer": draft_question(scene),
        "state-extractor": extractor_question(scene, case.candidate, case.profile, FLOOR_BYTES),
        "proposer": proposer_question(scene, inquiry),
        "soft-verifier": verifier_question(scene, case.candidate, []),
        "policy-evaluator": evaluator_question(found, "0"),
        "gap-analyst": analyst_question(scene, results, planted(), "0"),
        "knowledge-updater": updater_question(scene, results, gaps, planted(), "0"),
        "minimal": plain_question(scene, plain),
        "cycles-only": proposer_question(blind, Inquiry(case.candidate, target, seen, FLOOR_BYTES)),
    }
    requests = {name: request_of(question) for name, question in asked.items()}
    return {**requests, "lowerer": lowered, "mend": mended, "state-matcher": matched}


def discrepancies(case: Case, evaluation: Evaluation) -> list[Discrepancy]:
    """Two results of techniques that the knowledge base knows in the state `latency`."""
    steps = [
        tried(case.candidate, "thread_coarsening", speedup_of(0.7), kernel=case.target.kernel, child="a"),
        tried(case.candidate, "block_shape", "CompileFailed", kernel=case.target.kernel, child="b"),
    ]
    failed = evaluation.model_copy(update={"outcome": FAILED, "profile": None})
    fresh = [
        Sample(step, evaluation, after, FLOOR_BYTES)
        for step, after in zip(steps, (evaluation, failed), strict=True)
    ]
    return evaluate_policy(fresh, [], planted(), "sm_90a")
