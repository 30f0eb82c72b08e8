"""What a prompt says about the task, the judge's rules and the GPU."""

from pathlib import PurePath

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.judge.sweep import tunables
from kernelblaster.policies.llm.data import RULE, data
from kernelblaster.policies.llm.prompt import render
from kernelblaster.records import Task, Timing
from kernelblaster.tasks.header import declaration

CONTRACT_TOKENS = 2500
FEATURES = (
    (70, "mma on FP16"),
    (80, "cp.async, mma on TF32 and BF16"),
    (90, "clusters, TMA bulk copies, wgmma"),
    (100, "tcgen05"),
)
SHARED_KB = {70: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 120: 99}


def contract(task: Task) -> str:
    """What a candidate for this task must be. The same for all roles that write one, so that a server
    keeps it in its prompt cache; and wherever the task's file lies, so that answers can be replayed."""
    sections = {
        "header": declaration(task.signature, PurePath(task.name).name).strip(),
        "dtype": task.dtype,
        "sizes": sizes(task),
        "data_rule": RULE,
    }
    return render("contract.md", "contract", CONTRACT_TOKENS, sections)


def change_contract(task: Task) -> str:
    """The same for those who change a candidate that keeps the rules already: its source shows the rest."""
    primary = ", ".join(f"{name}={value}" for name, value in task.primary.sizes.items())
    sections = {"dtype": task.dtype, "sizes": primary or "no sizes", "data_rule": RULE}
    return render("change_contract.md", "contract", CONTRACT_TOKENS, sections)


def sizes(task: Task) -> str:
    """The primary workload, which is timed, and the others, at which the result must be right too."""
    listed = [", ".join(f"{name}={value}" for name, value in w.sizes.items()) for w in task.workloads]
    names = [w.name for w in task.workloads]
    return "\n".join(
        f"- {name}{' (timed)' if name == 'primary' else ''}: {text or 'no sizes'}"
        for name, text in zip(names, listed, strict=True)
    )


def reference(task: Task) -> str:
    return data(f"reference, {'PyTorch' if task.kind == 'module' else 'CUDA'}", task.source)


def gpu(spec: GpuSpec, *, modelled: bool) -> str:
    """Limits and instructions of the architecture. On the emulated device only what all GPUs since 8.0
    have can be run."""
    number = capability(spec)
    has = "; ".join(words for since, words in FEATURES if number >= since and (not modelled or since <= 80))
    shared = SHARED_KB.get(number, SHARED_KB[max(n for n in SHARED_KB if n <= max(number, 70))])
    return (
        f"{spec.title}, {spec.architecture}: {spec.multiprocessors} multiprocessors, "
        f"{spec.dram_gb_s:g} GB/s, {spec.l2_mb:g} MB L2, {spec.fp32_tflops:g} TFLOPS FP32, "
        f"{spec.fp16_tflops:g} FP16 tensor, {shared} KB of shared memory a block. Has {has}."
    )


def capability(spec: GpuSpec) -> int:
    """90 for sm_90a."""
    return int("".join(letter for letter in spec.architecture if letter.isdigit()) or 70)


def times(timing: Timing | None) -> str:
    if timing is None:
        return "not timed"
    about = " (modelled)" if timing.modelled else ""
    return (
        f"{timing.candidate_us:.1f} us{about}; PyTorch {timing.baseline_us:.1f} us; no implementation can be "
        f"faster than {timing.floor_us:.1f} us"
    )


def constants(source: str) -> str:
    """The constants that a source declares as tunable."""
    found = [f"{t.name} = {', '.join(str(v) for v in t.values)}" for t in tunables(source)]
    return f"Tunable constants: {'; '.join(found)}." if found else ""
