"""The facts of a run for the top of its page: task, device, times, costs."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelblaster.models.spending import spent_on_models
from kernelblaster.quantities import time_text
from kernelblaster.report.run.verdict import baseline_name, has_ended
from kernelblaster.store.events import RunEvent
from kernelblaster.store.history import History, JudgedCandidate
from kernelblaster.store.run import ReadableRun
from kernelblaster.store.steering import STEERED


def device_of(run: ReadableRun, history: History) -> str:
    """Returns the name of the device on which the candidates of a run were judged: the name recorded when the
    run began, else that in the first verdict, else the kind of device that was asked for ("cuda")."""
    begun = next((str(event.data["name"]) for event in run.events if event.kind == "device"), "")
    judged = next((str(one.verdict["device"]) for one in history.judged), "")
    return begun or judged or str(history.about.get("device", "unknown"))


def facts_of(run: ReadableRun, history: History) -> list[tuple[str, str]]:
    """Returns what the top of a run's page says, as (name, text) in the order of display: task, device,
    times, techniques applied, costs."""
    about = history.about
    kept = next((event.data for event in run.events if event.kind == "task"), {})
    dtype = kept.get("dtype") or about.get("dtype") or "of the file"
    times = "modelled, not measured" if history.modelled else "measured"
    facts = [
        ("task", history.task),
        ("device", f"{device_of(run, history)}; times are {times}"),
        ("dtype", str(dtype)),
        *(_timing(history.best, history.modelled) if history.best else []),
        ("applied", ", ".join(history.applied) or _nothing_applied(history)),
        ("judged", _spent(run, history)),
        ("begun", time.strftime("%Y-%m-%d %H:%M", time.localtime(run.events[0].at)) if run.events else "?"),
        ("run", run.name),
    ]
    models = _models(run, about)
    return facts + ([("model", models)] if models else [])


def _timing(best: JudgedCandidate, modelled: bool) -> list[tuple[str, str]]:
    """For the top of the page: time, baseline, floor and verification of the best candidate, as (name, text);
    what is not known is left out."""
    timing, checked = best.verdict["timing"], best.verdict.get("verification")
    facts = []
    if timing:
        us, baseline = (time_text(timing[name], modelled) for name in ("candidate_us", "baseline_us"))
        share = timing["floor_us"] / timing["candidate_us"]
        floor = f"floor {timing['floor_us']:.1f} us, so {share:.0%} of the speed of light"
        facts.append(("time", f"{us}; {baseline_name(best)} {baseline}; {floor}"))
    if checked:
        agree = "bit for bit" if checked["deterministic"] else "within tolerance, not bit for bit"
        said = f"{len(checked['cases'])} comparisons in {checked['calls']} calls; repeated runs agree {agree}"
        facts.append(("verified", said))
    return facts


def _nothing_applied(history: History) -> str:
    """What the page says in place of the techniques applied, where there are none: not known yet, or the
    first candidate is best."""
    if not has_ended(history):
        return "known when the run has ended"
    return "nothing: the first candidate is the best"


def _spent(run: ReadableRun, history: History) -> str:
    """What the search has used, as text: candidates judged, of how many, and time worked."""
    seconds = worked_seconds(run.events)
    count = len(history.judged)
    limit = _limit(run.events, history)
    of = f" of at most {limit}" if limit else ""
    return f"{count} candidate{'' if count == 1 else 's'}{of}, in {_duration(seconds)}"


def _limit(events: Sequence[RunEvent], history: History) -> int | None:
    """The most candidates that the search may judge, as set at its beginning (`history`) or changed by people
    while it ran (`events`); None without a limit."""
    limit = history.limit
    for event in events:
        if event.kind == STEERED:
            actions = [command.get("action") or {} for command in event.data.get("commands", ())]
            limit = next((one["evaluations"] for one in reversed(actions) if one.get("evaluations")), limit)
    return limit


def worked_seconds(events: Sequence[RunEvent]) -> float:
    """Returns for how many seconds processes worked on a run; pauses between them do not count. It is
    computed from the events' `after`, the seconds since their process began. Where this is smaller than in
    the event before, a new process began."""
    total = last = 0.0
    for event in events:
        after = event.after or 0.0
        if after < last:
            total += last
        last = after
    return total + last


def _duration(seconds: float) -> str:
    """A time as text for people: in s up to two minutes, in min up to two hours, else in h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _models(run: ReadableRun, about: dict[str, Any]) -> str:
    """Which language models took part, with their tokens and price, as text; empty if none did."""
    models = about.get("models") or {}
    choice = models.get("choice") or {}
    if not choice:
        return ""
    replayed = f"answers replayed from {Path(choice['replay']).name}" if choice.get("replay") else ""
    spent = spent_on_models(run.folder, choice.get("prices"))
    price = "at a price that is not known" if spent.usd is None else f"${spent.usd:.4f}"
    tokens = f"{spent.tokens:,} tokens{' (estimated)' if spent.estimated else ''}"
    named = choice.get("model") or replayed or ", ".join(choice.get("roles") or ())
    return f"{named}; strategy {models.get('strategy')}; {tokens}, {price}"
