"""Prints evaluations, profiles and the emulator's counters (instructions, memory traffic) on the terminal,
for people."""

from rich.padding import Padding
from rich.table import Table

from kernelblaster.cli.terminal import Terminal, plain, wrap_hanging
from kernelblaster.records import (
    Abandoned,
    Accepted,
    CompileFailed,
    Evaluation,
    Inconclusive,
    Incorrect,
    Metric,
    Outcome,
    Profile,
    Rejected,
    RuntimeFailed,
    Slower,
    TimedOut,
    Unsupported,
)
from kernelblaster.records.outcome import CORRECT, Speedup
from kernelblaster.report.margin import margin_of

out = Terminal()
EXIT_CODES: dict[type, int] = {
    Accepted: 0,
    Inconclusive: 1,
    Slower: 1,
    Incorrect: 3,
    CompileFailed: 4,
    RuntimeFailed: 5,
    TimedOut: 5,
    Rejected: 6,
    Unsupported: 2,
    Abandoned: 2,
}
COLOURS = {"Accepted": "green", "Inconclusive": "yellow", "Slower": "yellow"}
TELLING = (
    "Duration",
    "DRAM Throughput",
    "Memory Throughput",
    "Compute (SM) Throughput",
    "L1/TEX Cache Throughput",
    "L2 Cache Throughput",
    "Achieved Occupancy",
    "Theoretical Occupancy",
    "Registers Per Thread",
    "ptxas Registers",
    "ptxas Spill Stores",
    "ptxas Theoretical Occupancy",
)
COUNTED = {
    "Warp Instructions": "instructions",
    "Active Lanes": "lanes",
    "Load Sectors Per Request": "sectors/load",
    "Store Sectors Per Request": "/store",
    "Shared Bank Conflicts": "conflicts",
    "Divergent Branches": "divergent",
}
ADVICE_SHOWN = 4


def exit_code(outcome: Outcome) -> int:
    return EXIT_CODES[type(outcome)]


def print_outcome(outcome: Outcome, subject: str) -> None:
    colour = COLOURS.get(outcome.kind, "red")
    out.print(f"[{colour} bold]{outcome.kind}[/]  {plain(subject)}", markup=True, highlight=False)
    if isinstance(outcome, CORRECT):
        cut = isinstance(outcome, Slower) and outcome.reason
        one_call = f"{outcome.speedup.estimate:.3g}x by a single call"
        out.print(f"  {one_call if cut else _speedup(outcome.speedup)}", highlight=False)
        if isinstance(outcome, Inconclusive | Slower) and outcome.reason:
            out.print(f"  {outcome.reason}", markup=False, highlight=False, soft_wrap=True)
    elif isinstance(outcome, TimedOut):
        out.print(f"  no answer within {outcome.limit_s:g} s ({outcome.stage})", highlight=False)
    elif isinstance(outcome, CompileFailed):
        out.print("  " + outcome.reason, markup=False, highlight=False, soft_wrap=True)
        for line in outcome.log.splitlines()[:20]:
            out.print("    " + line, markup=False, highlight=False, style="dim", soft_wrap=True)
    else:
        out.print(f"  {outcome.reason}", markup=False, highlight=False, soft_wrap=True)
        for line in outcome.evidence.splitlines():
            out.print("    " + line, markup=False, highlight=False, soft_wrap=True)


def print_evaluation(evaluation: Evaluation) -> None:
    print_outcome(evaluation.outcome, f"{evaluation.task} on {evaluation.device}")
    if evaluation.defines:
        chosen = ", ".join(f"{name}={value}" for name, value in evaluation.defines)
        print_fact("constants", chosen)
    timing = evaluation.timing
    if timing:
        modelled = " modelled" if timing.modelled else ""
        sampled = "" if timing.modelled else f"; {timing.samples} samples"
        print_fact(
            "time",
            f"{timing.candidate_us:.1f} us{modelled}; {timing.baseline} "
            f"{timing.baseline_us:.1f} us{modelled}; floor {timing.floor_us:.1f} us{sampled}",
        )
    checked = evaluation.verification
    if checked:
        agree = "bit for bit" if checked.deterministic else "within tolerance, not bit for bit"
        print_fact(
            "verified",
            f"{len(checked.cases)} comparisons in {checked.calls} calls; repeated runs agree {agree}",
        )
        margin = margin_of(checked)
        if margin is not None and margin.narrow:
            print_fact("", margin.warning)
        for note in checked.notes:
            print_fact("", note, style="dim")
    if evaluation.compilation:
        compiled = evaluation.compilation
        source = "from the cache" if compiled.cached else f"in {compiled.seconds:.1f} s"
        spills = sum(r.spill_store_bytes for r in compiled.resources)
        note = f"; {spills} bytes of spills" if spills else ""
        print_fact("compiled", f"{source} by {compiled.compiler}{note}")
    if evaluation.counters:
        print_counters(evaluation.counters, clean=checked is not None)
    if evaluation.profile:
        print_profile(evaluation.profile)


def print_fact(name: str, text: str, style: str = "") -> None:
    """Prints one line of a verdict, such as `speedup 1.49x`: `name` in a column of ten letters, then `text`.
    On a terminal, a long text continues below its own beginning, not below the name. `style` is a style of
    rich."""
    lead = f"  {name:10} "
    line = lead + wrap_hanging(out, text, len(lead))
    out.print(line, markup=False, highlight=False, soft_wrap=True, style=style)


def print_sweep(evaluations: list[Evaluation]) -> None:
    if not evaluations:
        return
    modelled = " modelled" if any(e.timing and e.timing.modelled for e in evaluations) else ""
    columns = ("constants", "outcome", f"us{modelled}", f"speedup{modelled}")
    table = Table(*columns, box=None, pad_edge=False)
    for e in evaluations:
        speedup = f"{e.outcome.speedup.estimate:.3f}" if isinstance(e.outcome, CORRECT) else ""
        time_us = f"{e.timing.candidate_us:.1f}" if e.timing else ""
        table.add_row(", ".join(f"{n}={v}" for n, v in e.defines), e.outcome.kind, time_us, speedup)
    out.print(table)


def print_counters(counted: Profile, *, clean: bool) -> None:
    """Prints a table of what the emulator counted, such as instructions and memory traffic, with a row for
    each kernel launch; `counted` is the profile that has these counts. `clean` adds "no findings", for a
    candidate that passed the emulator's checks."""
    note = "; no findings" if clean else ""
    out.print(f"  counted    at the {counted.workload} workload{note}", highlight=False)
    table = Table("launch", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for title in COUNTED.values():
        table.add_column(title, justify="right")
    for number, kernel in enumerate(counted.kernels, 1):
        table.add_row(str(number), *(_count(kernel.metric(name)) for name in COUNTED))
    out.print(Padding(table, (0, 0, 0, 2)), highlight=False)


def print_profile(profile: Profile) -> None:
    out.print(f"profile ({profile.tier}, {profile.workload} workload)", style="bold")
    for number, kernel in enumerate(profile.kernels, 1):
        out.print(f"{number}. {kernel.name[:100]}", markup=False, highlight=False)
        out.print(f"   grid {kernel.grid}, block {kernel.block}", highlight=False, style="dim")
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 3))
        for name in TELLING:
            metric = kernel.metric(name)
            if metric is not None:
                table.add_row(name, *_value(metric))
        out.print(table)
        ranked = sorted(kernel.advice, key=lambda a: -(a.estimated_speedup_percent or 0.0))
        for advice in ranked[:ADVICE_SHOWN]:
            gain = advice.estimated_speedup_percent
            prefix = f"{gain:.0f} %: " if gain else ""
            out.print(f"   - {prefix}{advice.message}", markup=False, highlight=False, style="dim")


def _count(metric: Metric | None) -> str:
    """Returns a counter's value as text; empty if it was not counted (None)."""
    if metric is None or not isinstance(metric.value, float):
        return ""
    return f"{metric.value:,.0f}" if metric.value.is_integer() else f"{metric.value:.1f}"


def _speedup(speedup: Speedup) -> str:
    """A speedup with its interval as text, which says whether that is a confidence interval or the error of
    the GPU model."""
    between = f"between {speedup.low:.3f} and {speedup.high:.3f}"
    if speedup.confidence is None:
        return f"{speedup.estimate:.3f}x modelled, {between} by the model's own error"
    return f"{speedup.estimate:.3f}x, {between} with {speedup.confidence:.0%} confidence"


def _value(metric: Metric) -> tuple[str, str]:
    """Returns (the value of a metric as text, its unit); nanoseconds become microseconds."""
    if not isinstance(metric.value, float):
        return metric.value, metric.unit
    if metric.unit == "ns":
        return f"{metric.value / 1e3:.4g}", "us"
    return f"{metric.value:.4g}", metric.unit
