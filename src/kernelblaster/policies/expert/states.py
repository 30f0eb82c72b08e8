"""Names the performance state of each kernel of a profiled call, and chooses the kernel that is most worth
optimizing. Both follow fixed rules without a language model, which docs/states.md describes."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelblaster.policies.expert.bottlenecks import headroom_of, primary_of, secondary_of, thresholds
from kernelblaster.policies.expert.signals import Signals, signals_of
from kernelblaster.records import KernelProfile, Profile
from kernelblaster.records.state import HEADROOM, Bottleneck, KernelState, State

REGISTERS = 255
ABOUT: dict[Bottleneck, str] = {
    "memory-bandwidth": "Device memory is the busiest part, at 60 % of its peak or more",
    "uncoalesced-access": "Lanes of a warp touch more sectors of memory than their data fills",
    "l2-bandwidth": "The L2 cache is the busiest part, at 60 % of its peak or more",
    "bank-conflicts": "Lanes of a warp wait for each other at the banks of shared memory",
    "latency": "Nothing is busy: warps wait for their own results, and there are too few others",
    "register-pressure": "Registers run out: they are spilled, or too few warps fit",
    "fp32-pipe": "Arithmetic in float32 is most of what is issued",
    "tensor-pipe": "The tensor cores are busy",
    "instruction-issue": "Instructions other than the arithmetic proper take the time",
    "divergence": "Branches leave many lanes of a warp idle",
    "barriers": "Warps wait for the others of their block",
    "atomics": "Atomic operations wait for each other in the L2 cache",
    "launch-overhead": "Launching takes as long as the work",
    "tail-effect": "Many multiprocessors are idle while the last blocks run",
    "redundant-work": "Many more bytes are moved than the task needs",
}

UNMEASURED = "Only its time is known, and not what bounds it"


@dataclass(frozen=True)
class StateRule:
    """The choice of the next kernel to optimize, made by the fixed rule of `choose_target`. `kernel` is the
    chosen kernel with its performance state, `position` its index in launch order. `call_speedup` is the
    speedup of the whole call if this kernel saved all the time that it can; None if the profile does not tell
    how much that is."""

    position: int
    kernel: KernelState
    call_speedup: float | None


def extract_states(
    profile: Profile, floor_bytes: int | None = None, access_bytes: int | None = None
) -> tuple[KernelState, ...]:
    """Returns for each kernel of the profile, in launch order, its performance state (what bounds it), its
    name and its share of the call's time. `floor_bytes` is the least memory traffic in bytes that the call
    needs, `access_bytes` how many bytes a lane loads or stores with one instruction; None if unknown."""
    signals = [signals_of(profile, kernel, floor_bytes, access_bytes) for kernel in profile.kernels]
    primaries = [primary_of(s) for s in signals]
    call = _CallWords(signals, primaries)
    return tuple(
        KernelState(kernel=kernel.name, share=share, state=_state(s, primary, call))
        for kernel, share, s, primary in zip(
            profile.kernels, _shares(profile.kernels), signals, primaries, strict=True
        )
    )


def choose_target(states: Sequence[KernelState]) -> StateRule | None:
    """Returns the kernel among `states` that could save the largest part of the call's time (Amdahl's law),
    with its index in launch order, and the speedup of the call if it saved that. A kernel of which the
    possible saving is not known counts as if it could save all of its time. None if there are no kernels."""
    if not states:
        return None

    best = max(range(len(states)), key=lambda position: (possible_gain(states[position]), -position))
    known = HEADROOM in states[best].state.metrics
    return StateRule(best, states[best], 1 / (1 - possible_gain(states[best])) if known else None)


def possible_gain(kernel: KernelState) -> float:
    """Returns the fraction (0 to 1) of the call's time that could be saved in this kernel. If that is not
    known, it is the kernel's whole share of the time."""
    return kernel.share * kernel.state.metrics.get(HEADROOM, 1.0)


def state_name(primary: Bottleneck, secondary: Sequence[str]) -> str:
    """Returns the name of a state: its bottleneck `primary` and, if there are any, the further words in
    `secondary`, sorted. For example "memory-bandwidth" or "latency/low-occupancy+small-blocks"."""
    return "/".join([primary, "+".join(sorted(secondary))] if secondary else [primary])


class _CallWords:
    """Finds the secondary words of states that depend on all kernels of a call together: `many-launches` and
    `intermediate-traffic`."""

    def __init__(self, signals: Sequence[Signals], primaries: Sequence[Bottleneck]) -> None:
        t = thresholds()
        self.launches = len(signals)
        self._many = primaries.count("launch-overhead") >= t["secondary"]["many_launches"]
        ratios = [s.moved_over_floor for s in signals if s.moved_over_floor is not None]
        self._above_floor = len(ratios) > 1 and sum(ratios) >= t["primary"]["moved_over_floor"]
        self._own = t["secondary"]["moved_over_floor"]
        self._some = t["secondary"]["some_of_floor"]

    def of(self, s: Signals, primary: Bottleneck) -> tuple[str, ...]:
        if primary == "launch-overhead":
            return ("many-launches",) if self._many else ()
        part = s.moved_over_floor or 0.0
        between = self._above_floor and self._some < part < self._own
        return ("intermediate-traffic",) if between else ()


def _state(s: Signals, primary: Bottleneck, call: _CallWords) -> State:
    secondary = tuple(sorted({*secondary_of(s, primary), *call.of(s, primary)}))
    metrics = _metrics(s)
    headroom = headroom_of(s, primary, call.launches)
    if headroom is not None:
        metrics[HEADROOM] = round(headroom, 4)
    also = f"; also: {', '.join(word.replace('-', ' ') for word in secondary)}" if secondary else ""
    return State(
        name=state_name(primary, secondary),
        primary=primary,
        secondary=secondary,
        description=f"{ABOUT[primary] if s.measured or primary != 'latency' else UNMEASURED}{also}.",
        metrics=metrics,
    )


def _metrics(s: Signals) -> dict[str, float]:
    """The signals `s` of a kernel that are known, by name, each between 0 and 1, as the metrics of its state.
    A ratio r (such as bytes moved to bytes needed) becomes 1 - 1/r, the part that is too much."""
    values = {
        "dram": s.dram,
        "l2": s.l2,
        "l1": s.l1,
        "issue": s.issue,
        "fp32_pipe": s.pipes.get("fma"),
        "tensor_pipe": s.pipes.get("tensor"),
        "excess_access": _excess(s.access_excess),
        "bank_conflicts": s.bank_conflicts,
        "atomics": s.atomics,
        "occupancy": s.occupancy,
        "registers": None if s.registers is None else min(1.0, s.registers / REGISTERS),
        "spills": None if s.spill_bytes is None else s.spill_bytes / (s.spill_bytes + 64),
        "idle_lanes": None if s.active_lanes is None else 1 - s.active_lanes,
        "barriers": s.barrier_share,
        "imbalance": None if s.balance is None else 1 - s.balance,
        "redundancy": _excess(s.moved_over_floor),
    }
    return {name: round(value, 4) for name, value in values.items() if value is not None}


def _excess(ratio: float | None) -> float | None:
    return None if ratio is None else 1 - 1 / max(1.0, ratio)


def _shares(kernels: Sequence[KernelProfile]) -> list[float]:
    """Each kernel's fraction (0 to 1) of the call, in order: by time; if the profile has no times, by
    executed warp instructions; else all equal."""
    counts = [kernel.metric("Warp Instructions") for kernel in kernels]
    for weights in (
        [kernel.duration_us for kernel in kernels],
        [m.value if m is not None and isinstance(m.value, float) else None for m in counts],
    ):
        known = [weight for weight in weights if weight is not None]
        if len(known) == len(kernels) and sum(known) > 0:
            return [weight / sum(known) for weight in known]
    return [1 / len(kernels) for _ in kernels]
