"""Writes profiles as text for prompts: as a short digest, or with every metric."""

import re
from collections.abc import Mapping

from kernelblaster.policies.expert.bottlenecks import PIPE_WORDS, thresholds
from kernelblaster.policies.expert.signals import STALL, signals_of
from kernelblaster.policies.expert.states import extract_states
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.figures import BUSY, TROUBLE, figure
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.records import KernelProfile, KernelState, Profile
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.state import HEADROOM

RESOURCE_METRICS = {
    "Registers Per Thread": "registers",
    "Static Shared Memory Per Block": "{unit} of static shared memory",
    "Dynamic Shared Memory Per Block": "{unit} of dynamic shared memory",
    "Waves Per SM": "waves of blocks",
}
NOTED = 0.05  # a trouble below this is none
PIPE_NOTED = 0.25  # the same for pipes that are neither FP32 nor tensor
STALL_NOTED = 0.5  # cycles stalled for each instruction; less is none
STALLS = 3  # reasons of stalls shown per kernel
ADVICE = 2  # pieces of advice shown per kernel
ADVICE_LETTERS = 180
ADDRESS = re.compile(r"\s*\(https?://[^)\s]*\)")  # of a manual, in the profiler's words
BESIDES = 40  # importance of kernels other than the one in question; less for each further one


def digest(profile: Profile, floor_bytes: int, kernel: str | None = None) -> list[Piece]:
    """Returns a profile as texts for a prompt: up to five lines for each kernel, those with the largest share
    of the time first. `floor_bytes` is the least memory traffic of the task, in bytes. `kernel` is the name
    of the kernel that the prompt is about: its text includes the profiler's advice and is never left out of a
    long prompt. If `kernel` is None, the first eight kernels are treated in this way."""
    states = extract_states(profile, floor_bytes)
    listed = sorted(zip(profile.kernels, states, strict=True), key=lambda pair: -pair[1].share)
    bounded = any(HEADROOM in state.state.metrics for state in states)
    pieces = [Piece(_meaning())] if bounded else []
    for rank, (profiled, state) in enumerate(listed):
        name = kernel_name(profiled.name)
        importance = NEEDED if kernel in (None, name) and rank < 8 else max(1, BESIDES - rank)
        pipes = signals_of(profile, profiled, floor_bytes).pipes
        text = _kernel(name, profiled, state, [*_busy(state.state.metrics), *_pipes(pipes)])
        if importance == NEEDED:
            text = "\n".join([text, *_achieved(profiled), *_advice(profiled)])
        pieces.append(Piece(text, importance))
    return pieces


def _meaning() -> str:
    """Returns the line of a profile's text that explains the words `could save`: to what a kernel's time is
    compared there."""
    reachable = thresholds()["busy"]["dram_reachable"]
    return (
        f"(could save: against the task's own bytes at {reachable:.0%} of the memory's peak, or the "
        "arithmetic that is done)"
    )


def kernel_name(profiled: str) -> str:
    """Returns the name that a kernel has in its source, at most 80 characters. `profiled` is the name in the
    profile, which may be mangled or have template arguments."""
    return one_line(source_name(profiled), 80)


def _kernel(name: str, profiled: KernelProfile, state: KernelState, busy: list[str]) -> str:
    """The two lines of a prompt on the kernel `name`: share, time, launch shape and resources, from
    `profiled` and `state`; then `busy` (phrases such as `device memory 47%`), metrics of waste (such as bank
    conflicts) above NOTED, and how much of its time could be saved."""
    time = f"{profiled.duration_us:.1f} us, " if profiled.duration_us is not None else ""
    grid, block = ("x".join(str(n) for n in _short(of)) for of in (profiled.grid, profiled.block))
    metrics = state.state.metrics
    trouble = [figure(key, metrics[key]) for key in TROUBLE if metrics.get(key, 0) > NOTED]
    if HEADROOM in metrics:
        trouble.append(f"could save {metrics[HEADROOM]:.0%} of its time")
    lines = [f"- {name}: {state.share:.0%} of the call, {time}{grid} blocks of {block}{_resources(profiled)}"]
    lines.append(f"  busy: {', '.join(busy) or 'unknown'}" + (f"; {', '.join(trouble)}" if trouble else ""))
    return "\n".join(lines)


def _busy(metrics: Mapping[str, float]) -> list[str]:
    """Phrases such as `device memory 47%` on the use of memories, issue slots and pipes, where it is at least
    1 %. `metrics` are those of a performance state by name, fractions from 0 to 1."""
    return [figure(key, metrics[key]) for key in BUSY if metrics.get(key, 0) >= 0.01]


def _pipes(pipes: Mapping[str, float]) -> list[str]:
    """Phrases such as `integer pipe 40%` on the use of arithmetic pipes other than FP32 and tensor, where it
    is at least PIPE_NOTED. `pipes` are fractions of the peak by the pipe's name."""
    uses: dict[str, float] = {}
    for pipe, word in PIPE_WORDS.items():
        uses[word] = max(uses.get(word, 0.0), pipes.get(pipe, 0.0))
    return [f"{word.replace('-', ' ')} {use:.0%}" for word, use in uses.items() if use >= PIPE_NOTED]


def _resources(profiled: KernelProfile) -> str:
    """What RESOURCE_METRICS lists of a kernel (registers, shared memory, waves), as the continuation of a
    sentence; empty for a profile without them."""
    parts = []
    for metric, words in RESOURCE_METRICS.items():
        value = profiled.metric(metric)
        if value is not None and isinstance(value.value, float) and value.value:
            unit = value.unit.split("/")[0]
            parts.append(f", {_count(value.value)} {words.format(unit=unit)}")
    return "".join(parts)


def _count(value: float) -> str:
    """Returns a number as text, in three digits, or rounded to a whole number if that has more digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _achieved(profiled: KernelProfile) -> list[str]:
    """A line on what a profiled kernel reached: MB moved and GB/s, hit rates of the caches, and what warps
    wait for most; an empty list if its profile does not have these metrics."""
    moved = [_value(profiled, f"dram__bytes_{way}.sum") for way in ("read", "write")]
    parts = []
    if profiled.duration_us and moved[0] is not None and moved[1] is not None:
        read, written = moved[0] / 1e6, moved[1] / 1e6
        rate = (read + written) * 1e3 / profiled.duration_us
        parts.append(f"{read:.1f} MB read and {written:.1f} written, {rate:.0f} GB/s")
    for cache, metric in (("L1", "L1/TEX Hit Rate"), ("L2", "L2 Hit Rate")):
        hits = _value(profiled, metric)
        if hits is not None:
            parts.append(f"{cache} hits {hits:.0f}%")
    stalls = {name: value for name, value in _stalls(profiled).items() if value >= STALL_NOTED}
    if stalls:
        most = sorted(stalls.items(), key=lambda stall: -stall[1])[:STALLS]
        listed = ", ".join(f"{name} {value:.1f}" for name, value in most)
        parts.append(f"cycles stalled an instruction: {listed}")
    return [f"  reached: {'; '.join(parts)}"] if parts else []


def _stalls(profiled: KernelProfile) -> dict[str, float]:
    """Cycles that the warps of a profiled kernel are stalled for each instruction they issue, by Nsight
    Compute's name of the reason; empty if its profile has none."""
    found = ((STALL.match(metric.name), metric.value) for metric in profiled.metrics)
    return {match[1]: value for match, value in found if match and isinstance(value, float)}


def _value(profiled: KernelProfile, metric: str) -> float | None:
    """The number that the profiled kernel has for the metric of this name; None if there is none or it is
    text."""
    found = profiled.metric(metric)
    return found.value if found is not None and isinstance(found.value, float) else None


def _advice(profiled: KernelProfile) -> list[str]:
    """Up to ADVICE lines of the profiler's advice on a kernel, the largest estimated speedup first; if no
    advice has an estimate, the first advice only. Empty if there is none."""
    ordered = sorted(profiled.advice, key=lambda a: -(a.estimated_speedup_percent or 0.0))
    promising = [advice for advice in ordered if advice.estimated_speedup_percent]
    lines = []
    for advice in promising[:ADVICE] or ordered[:1]:
        percent = advice.estimated_speedup_percent
        promise = f" (up to {percent:.0f} %)" if percent else ""
        lines.append(f"  profiler{promise}: {one_line(ADDRESS.sub('', advice.message), ADVICE_LETTERS)}")
    return lines


def _short(extents: tuple[int, int, int]) -> list[int]:
    """The extents (x, y, z) of a grid or block without trailing ones; at least x stays."""
    kept = list(extents)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return kept


def whole_profile(profile: Profile) -> str:
    """Returns a profile as text, with every metric (name, unit, value) and all advice of each kernel, section
    by section, much as Nsight Compute prints it."""
    lines = []
    for kernel in profile.kernels:
        lines.append(f"{one_line(kernel.name)}, grid {kernel.grid}, block {kernel.block}")
        section = None
        for metric in kernel.metrics:
            if metric.section != section:
                section = metric.section
                lines.append(f"  Section: {section or 'other'}")
            value = f"{metric.value:.6g}" if isinstance(metric.value, float) else metric.value
            lines.append(f"    {metric.name}  {metric.unit}  {value}")
        lines += [f"  {a.section}, {a.rule}: {one_line(a.message, 2000)}" for a in kernel.advice]
    return "\n".join(lines)
