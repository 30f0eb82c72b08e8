"""`slim_event`: events of a run without what no page shows, because a run that is followed for hours must
stay small in memory."""

from typing import Any

from kernelblaster.policies.llm.asker import ANSWER, QUESTION
from kernelblaster.report.kernel_figures import METRICS
from kernelblaster.store.events import RunEvent

LONGEST_SAID = 4000  # letters of what a judge says of a failure
OUTCOME = ("kind", "speedup", "limit_s", "stage")
VERDICT = ("candidate", "device", "device_seconds", "timing")
TIMING = ("baseline", "baseline_us", "candidate_us", "floor_us", "modelled")


def slim_event(event: RunEvent) -> RunEvent:
    """Returns a copy of the event with only what pages show. Left out are counters and most metrics of
    profiles, the single comparisons of a verification, and the texts of prompts and answers."""
    match event.kind:
        case "evaluation":
            data = {"source": event.data["source"], "evaluation": _verdict(event.data["evaluation"])}
        case "profile":
            data = {"profile": _profile(event.data.get("profile"))}
        case kind if kind == QUESTION:
            data = {"notes": event.data["notes"]} if "notes" in event.data else {}
        case kind if kind == ANSWER:
            data = _answer(event.key, event.data)
        case "update":
            data = {"gaps": event.data.get("gaps", [])}
        case _:
            return event
    return event.model_copy(update={"data": data})


def _verdict(verdict: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy of a recorded evaluation (JSON data) with only the fields that pages show."""
    outcome, timing = verdict["outcome"], verdict.get("timing")
    said = {
        name: str(outcome[name])[:LONGEST_SAID] for name in ("reason", "evidence", "log") if outcome.get(name)
    }
    checked = verdict.get("verification")
    slim: dict[str, Any] = {name: verdict[name] for name in VERDICT if name in verdict}
    slim["outcome"] = {name: outcome[name] for name in OUTCOME if name in outcome} | said
    slim["timing"] = {name: timing[name] for name in TIMING if name in timing} if timing else None
    slim["profile"] = _profile(verdict.get("profile"))
    if checked:
        counts = {"calls": checked["calls"], "deterministic": checked["deterministic"]}
        slim["verification"] = counts | {"cases": [None] * len(checked["cases"])}
    return slim


def _profile(profile: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns a copy of a recorded profile (JSON data) with only the metrics that pages show; None if there
    is none."""
    if not profile:
        return None
    kernels = [
        {"name": kernel["name"], "metrics": [one for one in kernel["metrics"] if one["name"] in METRICS]}
        for kernel in profile["kernels"]
    ]
    return {"tier": profile["tier"], "kernels": kernels}


def _answer(key: str, data: dict[str, Any]) -> dict[str, Any]:
    """Returns a copy of a model's recorded answer with only what pages show beside steps: the model, why
    there is no usable answer and, from the role "proposer" (which suggests techniques), the reason for each
    technique. `key` is that of the answer's event, which begins with the role."""
    answer = data.get("answer")
    kept: Any = {} if answer is not None else None
    if isinstance(answer, dict) and key.startswith("proposer/"):
        named = [one for one in answer.get("proposals", ()) if isinstance(one, dict)]
        kept = {"proposals": [{name: one.get(name) for name in ("technique", "reason")} for one in named]}
    about = {name: data[name] for name in ("model", "failure", "why") if name in data}
    return {"answer": kept} | about
