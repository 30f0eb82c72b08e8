"""`verdict_of`: the verdict on a run, in words."""

from dataclasses import dataclass
from math import log
from typing import Any, Literal

from kernelblaster.quantities import kind_text
from kernelblaster.records.evaluation import ORIGINAL_KERNEL
from kernelblaster.store.history import History, JudgedCandidate

Tone = Literal["good", "idle", "bad", ""]
BASELINES = {"eager": "eager PyTorch", ORIGINAL_KERNEL: "the original kernel"}
LEAST, MOST = 0.25, 4.0  # the scale on which an interval is drawn goes at least so far


@dataclass(frozen=True)
class Scale:
    """Where a speedup is drawn on a logarithmic scale. `estimate` is the speedup, `low` and `high` are the
    ends of its confidence interval, and `one` is a speedup of 1. All are positions in percent of the length
    of the scale."""

    low: float
    estimate: float
    high: float
    one: float


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run: `headline` is one phrase, `sentences` give meaning and uncertainty, `figure` is
    the speedup as text. `tone` is the CSS class by which it is coloured. `scale` draws the speedup with its
    confidence interval. Without a correct candidate, `figure` is empty and `scale` None."""

    tone: Tone
    headline: str
    figure: str
    sentences: list[str]
    scale: Scale | None = None


def verdict_of(history: History) -> Verdict:
    """Returns what the page of a run says first: how much faster its best candidate is than the baseline,
    with the confidence interval, or why there is no correct candidate. As long as the run has not ended, the
    best candidate so far is meant."""
    best = history.best
    if best is None or best.speedup is None:
        return _without(history)
    modelled = bool(best.verdict["timing"] and best.verdict["timing"].get("modelled"))
    against = baseline_name(best)
    reason = str(best.verdict["outcome"].get("reason", "")) if best.outcome == "Inconclusive" else ""
    tone, headline, meaning = _judged(best.outcome, against, reason)
    if not has_ended(history):
        tone = ""
        headline = f"Unfinished. So far: {headline[0].lower()}{headline[1:]}"
        meaning = f"{meaning} The run has not ended: more may be found."
    interval = best.verdict["outcome"]["speedup"]
    return Verdict(
        tone=tone,
        headline=headline,
        figure=f"{best.speedup:.2f}x",
        sentences=[f"{_sure(interval, modelled, against)} {meaning}", *_first(history, best, modelled)],
        scale=_scale(interval),
    )


def has_ended(history: History) -> bool:
    """True if the search that `history` tells of is over: it is complete, or it was stopped and its results
    are recorded."""
    return history.finished or history.learned is not None


def baseline_name(judged: JudgedCandidate) -> str:
    """Returns the baseline that the candidate `judged` was timed against, in words; eager PyTorch if it was
    not timed."""
    timing = judged.verdict["timing"] or {}
    name = str(timing.get("baseline", "eager"))
    return BASELINES.get(name, name)


def _judged(outcome: str, against: str, reason: str) -> tuple[Tone, str, str]:
    """Returns (tone, headline, explanation) for the outcome of a correct candidate; the tone names a colour.
    `against` is the baseline in words; `reason` says why a candidate that seems faster is inconclusive, and
    is empty otherwise."""
    if reason:
        return "idle", f"Seems faster than {against}", f"It was {reason}."
    match outcome:
        case "Accepted":
            return "good", f"Faster than {against}", "All of the interval lies above 1x."
        case "Slower":
            return (
                "bad",
                "Nothing faster was found",
                f"The best candidate is correct, and slower than {against}: keep what you have.",
            )
    return (
        "idle",
        "Nothing faster was found for certain",
        "The best candidate is correct, and the interval holds 1x: it may be faster or slower "
        f"than {against}.",
    )


def _sure(interval: dict[str, Any], modelled: bool, against: str) -> str:
    """A sentence on a speedup over `against` and its interval; `interval` is the recorded data of a
    `Speedup`."""
    confidence = interval.get("confidence")
    unknown = "by the model's own error" if modelled else "by a single call"
    how = unknown if confidence is None else f"with {confidence:.0%} confidence"
    return (
        f"{interval['estimate']:.2f}x{kind_text(modelled)} against {against}, "
        f"between {interval['low']:.2f}x and {interval['high']:.2f}x {how}."
    )


def _first(history: History, best: JudgedCandidate, modelled: bool) -> list[str]:
    """At most one sentence, in a list: by what factor the best candidate is faster than the first one of the
    search, or that the first is the best. Empty if there is no first candidate or a speedup is missing.
    `modelled` says that times come from the emulator's model, which the sentence then says too."""
    first = history.first
    if first is None or first.speedup is None or best.speedup is None or first.code == best.code:
        return ["The first candidate is the best."] if first and first.code == best.code else []
    gain = best.speedup / first.speedup
    return [f"{gain:.2f}x{kind_text(modelled)} over the first candidate of the search."]


def _without(history: History) -> Verdict:
    """The verdict for a run in which no candidate was correct: a text that says so, without a speedup."""
    judged = len(history.judged)
    if has_ended(history):
        return Verdict("bad", "Nothing correct was found", "", [f"{_candidates(judged)} judged."])
    if not judged:
        return Verdict("", "Unfinished: nothing was judged yet", "", ["The run has not ended."])
    last = history.judged[-1].outcome
    sentence = f"{_candidates(judged)} judged, none of them correct; the last one: {last}."
    return Verdict("", "Unfinished: nothing correct so far", "", [sentence])


def _candidates(count: int) -> str:
    return "1 candidate was" if count == 1 else f"{count} candidates were"


def _scale(interval: dict[str, Any]) -> Scale:
    """The positions for drawing an interval (recorded data of a `Speedup`) on a scale from at least LEAST to
    MOST."""
    low, estimate, high = (max(1e-6, float(interval[name])) for name in ("low", "estimate", "high"))
    least, most = log(min(LEAST, low / 1.2)), log(max(MOST, high * 1.3))

    def percent(value: float) -> float:
        return round(100 * (log(value) - least) / (most - least), 1)

    return Scale(percent(low), percent(estimate), percent(high), percent(1.0))
