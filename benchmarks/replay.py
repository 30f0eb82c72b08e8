"""Whether a replayed launch list takes as long as the candidate's own host code.

The hand-written candidates, each timed in turns by the launcher, on mapped memory, and in this process, on
memory of its own with the real CUDA runtime behind its host code. Only for candidates that are trusted.

    python benchmarks/replay.py [--out results/replay.md]
"""

import argparse
import ctypes
import statistics
from pathlib import Path
from typing import Any

import torch
from publish import keep, publish

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.devices.device import Pointer
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.profile import filled_layout
from kernelblaster.records import Candidate, Task
from kernelblaster.testing.corpus import ROOT, Corpus

ROUNDS = 30


def medians(device: CudaDevice, judge: DeviceJudge, task: Task, candidate: Candidate) -> tuple[float, float]:
    """Microseconds replayed, and by the candidate's own host code."""
    prepared = judge._tasks.prepare(task)
    binary = judge.compile(task, candidate)
    assert isinstance(binary, Binary), binary
    device.arena(prepared.slots, prepared.spare)
    layout = filled_layout(device, task, prepared.baseline, task.primary)
    call = layout.arguments(task.signature, prepared.baseline.scalars)
    library = ctypes.CDLL(str(binary.path))
    own = {t.name: layout.view(t).clone() for t in task.signature.tensors}
    values: list[ctypes._SimpleCData[Any]] = []
    for argument in call:
        if isinstance(argument, Pointer):
            values.append(ctypes.c_uint64(own[argument.name].data_ptr()))
        elif isinstance(argument, float):
            values.append(ctypes.c_double(argument))
        else:
            values.append(ctypes.c_int64(int(argument)))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))

    def run() -> None:
        library.kernelblaster_call(pointers, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    runner = device.start(binary.path)
    device.settle()
    run()
    torch.cuda.synchronize()
    times = [(runner.time(call).event_us, device.time_reference(run)) for _ in range(ROUNDS)]
    runner.close()
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = open_device("cuda")
    assert isinstance(device, CudaDevice)
    ctypes.CDLL(toolchain().runtime, mode=ctypes.RTLD_GLOBAL)
    judge = DeviceJudge(device)
    corpus = Corpus()
    lines = [
        f"# Replayed against run by its own host code, on {device.name}",
        "",
        f"Medians of {ROUNDS} samples of each, in turns, on a cold L2 cache.",
        "",
        "| candidate | replayed us | own host code us | ratio | difference us |",
        "|---|---|---|---|---|",
    ]
    ratios, differences = [], []
    for file in sorted((ROOT / "tests" / "candidates").glob("*.cu")):
        replayed, own = medians(device, judge, *corpus.read(file))
        ratios.append(replayed / own)
        differences.append(replayed - own)
        lines.append(
            f"| {file.stem} | {replayed:.1f} | {own:.1f} | {replayed / own:.3f} | {replayed - own:+.1f} |"
        )
        print(lines[-1], flush=True)
        keep(lines, arguments.out)
    lines.append(f"\nMedian ratio {statistics.median(ratios):.3f}, largest {max(ratios):.3f}; ")
    lines.append(f"largest difference {max(differences):+.1f} us.")
    judge.close()
    device.close()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
