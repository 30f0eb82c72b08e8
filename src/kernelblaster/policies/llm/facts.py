"""Writes the parts of prompts on the judge's rules for candidates, the sizes of the workloads, and times."""

from collections.abc import Sequence
from pathlib import PurePath

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.judge.sweep import MOST_SWEPT, tunables
from kernelblaster.judge.timing import floor_rate
from kernelblaster.policies.llm.data import RULE
from kernelblaster.policies.llm.prompt import render
from kernelblaster.policies.llm.reference_words import precision, rival, rival_of
from kernelblaster.records import Floor, Task, Timing, Workload
from kernelblaster.tasks.header import declaration

CONTRACT_TOKENS = 2500
SAME = (
    "A size that is the same in all of them may be taken as fixed, if the code checks it and has a plain "
    "path for other values."
)


def contract(task: Task) -> str:
    """Returns the rules that a candidate of this task must follow. They are the system message of every
    question that asks for a whole new source. The text is the same in all of them, so that a server can cache
    it, and does not depend on the path of the task's file, so that recorded answers can be replayed."""
    sections = {
        "header": declaration(task.signature, PurePath(task.name).name).strip(),
        "dtype": task.dtype,
        "rival": rival(task),
        "tf32": precision(task),
        "sizes": sizes(task),
        "same": SAME if _fixed(task.workloads) else "",
        "data_rule": RULE,
    }
    return render("contract.md", "contract", CONTRACT_TOKENS, sections)


def change_contract(task: Task) -> str:
    """Returns the rules for candidates of this task in a shorter form. They are the system message of
    questions about an existing candidate, whose source shows the rest."""
    sections = {
        "dtype": task.dtype,
        "tf32": precision(task),
        "swept": str(MOST_SWEPT),
        "sizes": _brief(task.workloads),
        "same": SAME if _fixed(task.workloads) else "",
        "data_rule": RULE,
    }
    return render("change_contract.md", "contract", CONTRACT_TOKENS, sections)


def sizes(task: Task) -> str:
    """Returns one line for each workload of the task, with its sizes; the primary workload, which is timed,
    is marked."""
    listed = [", ".join(f"{name}={value}" for name, value in w.sizes.items()) for w in task.workloads]
    names = [w.name for w in task.workloads]
    return "\n".join(
        f"- {name}{' (timed)' if name == 'primary' else ''}: {text or 'no sizes'}"
        for name, text in zip(names, listed, strict=True)
    )


def _brief(workloads: Sequence[Workload]) -> str:
    """The workloads on one line, such as `B,N = 64,1024 (timed); 3,77; always C=8`: sizes that are the same
    in all of them stand at the end."""
    fixed = _fixed(workloads)
    names = [name for name in workloads[0].sizes if name not in fixed]
    cases = [
        f"{','.join(str(w.sizes[name]) for name in names)}{' (timed)' if w.name == 'primary' else ''}"
        for w in workloads
    ]
    parts = [f"{','.join(names)} = {'; '.join(dict.fromkeys(cases))}"] if names else []
    if fixed:
        always = "always " if len(workloads) > 1 else ""
        parts.append(always + ", ".join(f"{name}={value}" for name, value in fixed.items()))
    return "; ".join(parts) or "no sizes"


def compared_at(task: Task, *, modelled: bool) -> str:
    """Returns the sizes of those workloads of `task` at which the judge compared a candidate's results with
    the reference's, as text. `modelled`: the device is the emulator, which compares at one small workload
    only; the text then adds that the timed sizes were not compared."""
    if not modelled:
        return _brief([w for w in task.workloads if w.name != "small" or task.small_declared])
    compared, timed = (_brief([w]) for w in (task.small or task.smallest, task.primary))
    return f"{compared} alone, on an emulated device (those at the timed sizes were not: {timed})"


def _fixed(workloads: Sequence[Workload]) -> dict[str, int]:
    """Those sizes, by name, that have the same value in all of the workloads."""
    sizes = workloads[0].sizes
    return {
        name: value for name, value in sizes.items() if all(w.sizes.get(name) == value for w in workloads)
    }


def times(timing: Timing | None, best_us: float | None = None, floor: str = "at peak rates") -> str:
    """Returns a sentence with three times in us: the candidate's, the baseline's (PyTorch or the user's
    original kernel) and the roofline floor's; `not timed` if `timing` is None. `best_us` is the time of the
    run's fastest correct candidate, to be named too; None leaves it out. `floor` is the text that says how
    the floor is computed, such as `12.6 MB at 4800 GB/s`."""
    if timing is None:
        return "not timed"
    about = " (modelled)" if timing.modelled else ""
    best = f"; the best so far {best_us:.1f} us" if best_us is not None else ""
    return (
        f"{timing.candidate_us:.1f} us{about}{best}; {rival_of(timing)} {timing.baseline_us:.1f} us; floor "
        f"{timing.floor_us:.1f} us: {floor}"
    )


def floor_words(spec: GpuSpec, task: Task, floor: Floor) -> str:
    """Returns in words how the roofline floor of a task on the GPU `spec` is computed (the least time that
    the GPU's bandwidth and peak rates allow), such as `12.6 MB at 4800 GB/s`. Two times bound it: that of the
    bytes at the memory's bandwidth, and that of the operations at the peak rate. The longer one is named
    first; the other is left out if it is below 0.05 us."""
    tflops, unit = floor_rate(spec, task, floor)
    parts = [
        (floor.bytes / (spec.dram_gb_s * 1e3), f"{floor.bytes / 1e6:.1f} MB at {spec.dram_gb_s:g} GB/s"),
        (
            floor.operations / (tflops * 1e6),
            f"{floor.operations / 1e9:.2f} GFLOP of products at {tflops:.0f} TFLOPS ({unit})",
        ),
    ]
    (_, binds), (other_us, other) = sorted(parts, key=lambda part: -part[0])
    return f"{binds}, which binds; {other}, {other_us:.1f} us" if other_us >= 0.05 else binds


def constants(source: str) -> str:
    """Returns a sentence that lists the constants which a source declares as tunable, each with the values to
    try; empty if it declares none."""
    declared = [f"{t.name} = {', '.join(str(v) for v in t.values)}" for t in tunables(source)]
    return f"Tunable constants: {'; '.join(declared)}." if declared else ""
