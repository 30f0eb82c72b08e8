"""Evaluations and profiles as short JSON data for agents."""

from collections.abc import Sequence
from typing import Any

from kernelblaster.plain_text import printable
from kernelblaster.policies.llm.digest import digest
from kernelblaster.policies.llm.feedback import feedback, is_imprecise, outcome_feedback
from kernelblaster.records import Evaluation, Incorrect, Outcome, Profile, Verification
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.outcome import CORRECT
from kernelblaster.report.margin import margin_of

MODELLED = (
    "modelled by a GPU model from what the emulator counted, not measured; `Inconclusive` without a `why` "
    "means that 1.0 lies within the model's error, so rank candidates by speedup"
)
UNDESCRIBED = (
    "nobody has said what this technique is, so it is offered to no one: give `description` with the next "
    "evaluate that names it"
)
FURTHER = {
    "CompileFailed": "Correct the lines named above. The declaration is included for you: do not repeat it "
    "with other types, and include no torch headers.",
    "Incorrect": "Sizes are run-time values: check tails, sizes of 1, NaN and the order of indices; call "
    "emulate for every access that is out of bounds or races.",
    "Rejected": "Read guide('candidates') for what is allowed.",
    "RuntimeFailed": "Call emulate: it names the access and the line.",
    "TimedOut": "Look for loops that do not end, and for barriers that not all threads reach.",
    "Unsupported": "This instruction needs a GPU; write it more plainly.",
    "Abandoned": "The processes that judged it died twice: write it more plainly, or judge another one.",
}

IMPRECISE = (
    "Every number is nearly right, so indices and sizes are: sum in float32 or in blocks, split operands of "
    "tensor cores into more terms, and use no approximate functions."
)


def evaluation_data(evaluation: Evaluation, source: str) -> dict[str, Any]:
    """Returns a verdict (`evaluation`) as JSON data for agents: outcome, speedup over the baseline and times
    in microseconds if the candidate is correct, else why it is not and what to do. `source` is the id of the
    candidate's text."""
    outcome = evaluation.outcome
    data = outcome_data(outcome, printable(feedback(evaluation, source)))
    timing = evaluation.timing
    if timing is not None:
        data |= {
            "candidate_us": round(timing.candidate_us, 2),
            "baseline": timing.baseline,
            "baseline_us": round(timing.baseline_us, 2),
            "floor_us": round(timing.floor_us, 2),
            "times": MODELLED if timing.modelled else "measured",
        }
    data |= {"device": evaluation.device, **constants_data(evaluation)}
    compiled = evaluation.compilation
    if compiled is not None and isinstance(outcome, CORRECT):
        data["registers"] = {source_name(r.kernel)[:80]: r.registers for r in compiled.resources[:8]}
        spilled = sum(r.spill_store_bytes for r in compiled.resources)
        data |= {"spilled_bytes": spilled} if spilled else {}
    margin = margin_of(evaluation.verification) if evaluation.verification else None
    if margin is not None and isinstance(outcome, CORRECT):
        data["error_over_allowed"] = round(margin.share, 3)
        data |= {"precision": margin.warning} if margin.narrow else {}
    if evaluation.verification and evaluation.verification.notes:
        data["notes"] = [printable(note) for note in evaluation.verification.notes[:4]]
    return data


def constants_data(evaluation: Evaluation | None) -> dict[str, Any]:
    """The values that a candidate's tunable constants had when it was judged, as JSON data; empty if they had
    those of its source, or there is no evaluation."""
    return {"constants": dict(evaluation.defines)} if evaluation is not None and evaluation.defines else {}


def sweep_data(tried: Sequence[Evaluation]) -> dict[str, Any]:
    """What a sweep of a candidate's tunable constants gave, as JSON data: for each combination of values the
    outcome and, if it is correct, its speedup and time. A sentence instead, if the source declares no such
    constants; empty if there was no sweep."""
    if not tried:
        return {}
    if not any(one.defines for one in tried):
        return {"sweep": "the source declares no constants: `// kernelblaster-tune: BLOCK = 128, 256`"}
    return {"sweep": [_swept(one) for one in tried]}


def _swept(evaluation: Evaluation) -> dict[str, Any]:
    data: dict[str, Any] = {"constants": dict(evaluation.defines), "outcome": evaluation.outcome.kind}
    if isinstance(evaluation.outcome, CORRECT) and evaluation.timing is not None:
        data["speedup"] = round(evaluation.outcome.speedup.estimate, 4)
        data["candidate_us"] = round(evaluation.timing.candidate_us, 2)
    elif not isinstance(evaluation.outcome, CORRECT):
        data["why"] = printable(outcome_feedback(evaluation.outcome, ""))
    return data


def outcome_data(outcome: Outcome, words: str = "") -> dict[str, Any]:
    """Returns an outcome as JSON data, with its name. For a correct candidate, the data also has the speedup
    with its interval, and "why" if the outcome has a reason (such as what is missing to count the candidate
    as faster). For any other candidate, it says why the candidate failed and what to do next. `words`, if not
    empty, are given as the reason for the failure instead of the outcome's own."""
    data: dict[str, Any] = {"outcome": outcome.kind, "correct": isinstance(outcome, CORRECT)}
    if isinstance(outcome, CORRECT):
        speedup = outcome.speedup
        reason = getattr(outcome, "reason", "")
        return (
            data
            | {
                "speedup": round(speedup.estimate, 4),
                "interval": [round(speedup.low, 4), round(speedup.high, 4)],
            }
            | ({"why": printable(reason)} if reason else {})
        )
    data["why"] = words or printable(outcome_feedback(outcome, ""))
    imprecise = isinstance(outcome, Incorrect) and is_imprecise(outcome.evidence)
    further = IMPRECISE if imprecise else FURTHER.get(outcome.kind)
    return data | ({"next": further} if further else {})


def checked_data(outcome: Verification | Outcome, counters: Profile | None) -> dict[str, Any]:
    """Returns what the emulator found out about a candidate, as JSON data for agents: from `outcome` whether
    it is correct, and from `counters` the counts of its first 16 kernel launches (None: there are none)."""
    if isinstance(outcome, Verification):
        words = f"{len(outcome.cases)} comparisons in {outcome.calls} calls, every access checked"
        data: dict[str, Any] = {"correct": True, "verified": words, "deterministic": outcome.deterministic}
    else:
        data = outcome_data(outcome)
    if counters is not None:
        data["workload"] = counters.workload
        data["launches"] = [
            {
                "kernel": source_name(kernel.name)[:100],
                "grid": list(kernel.grid),
                "block": list(kernel.block),
                **{
                    m.name: round(m.value, 2) if isinstance(m.value, float) else m.value
                    for m in kernel.metrics
                },
            }
            for kernel in counters.kernels[:16]
        ]
    return data


def profile_text(profile: Profile, floor_bytes: int) -> str:
    """Returns a profile as text, a few lines for each kernel. The kernel with the largest share of the time
    comes first. `floor_bytes` is the least memory traffic of the task in bytes, to compare with."""
    return printable("\n".join(piece.text for piece in digest(profile, floor_bytes)))
