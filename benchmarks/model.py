"""How well the model of the GPU ranks kernels: variants of many families, measured once and modelled
again wherever this runs.

    python benchmarks/model.py record [--out results/variants.json]        needs a GPU
    python benchmarks/model.py replay [--measured results/variants.json] [--out results/model.md]
    python benchmarks/model.py check                                       verifies all on the PTX machine

With --folder, other kernels than benchmarks/variants: those in tests/exploits/honest had no part in choosing
the model's constants.
"""

import argparse
import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

import torch
from variants import FOLDER, Kernel, kernel_files, read_variants

from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.devices.device import CandidateDied, CandidateHung, Device
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.modelled import ModelledTimer, total_us
from kernelblaster.records import Evaluation, Outcome, Verification
from kernelblaster.testing.corpus import CORRECT, ROOT

APART = 0.15  # two measured times that differ by less say nothing about a ranking


@dataclass(frozen=True)
class Measured:
    """One variant on a GPU. The times are medians; `low_us` and `high_us` bound the candidate's by the
    interval of its speedup. They are None where the variant was not found correct."""

    file: str
    defines: dict[str, int]
    source: str
    task: str
    family: str
    outcome: str
    reason: str
    candidate_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    samples: int | None = None
    baseline_us: float | None = None

    @property
    def title(self) -> str:
        return " ".join([Path(self.file).stem, *(f"{k}={v}" for k, v in self.defines.items())])


def all_variants(only: str = "", folder: Path = FOLDER) -> list[Kernel]:
    """Every variant whose title contains `only`, those of one task together."""
    found = [k for file in kernel_files(folder) for k in read_variants(file) if only in k.title]
    found = [k for k in found if k.task.kind == "module"]
    return sorted(found, key=lambda k: (k.task.name, k.task.dtype))


def record(judge: DeviceJudge, chosen: Sequence[Kernel], out: Path, limit_s: float) -> list[Measured]:
    """Evaluate each variant once; `out` is complete after each, so that nothing is lost by a stop."""
    start = time.perf_counter()
    rows: list[Measured] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as compilers:
        waiting = [compilers.submit(_compile, judge.device, kernel) for kernel in chosen]
        for number, (kernel, binary) in enumerate(zip(chosen, waiting, strict=True), 1):
            rows.append(_measure(judge, kernel, binary))
            seconds = time.perf_counter() - start
            took = f"{rows[-1].candidate_us:.1f} us" if rows[-1].candidate_us else rows[-1].reason[:200]
            print(
                f"{number}/{len(chosen)} {seconds:.0f} s  {kernel.title}: {rows[-1].outcome} {took}",
                flush=True,
            )
            _save(judge.device.name, rows, out)
            if seconds > limit_s:
                print(f"stopped after {seconds:.0f} s; {len(chosen) - number} variants are missing")
                for later in waiting:
                    later.cancel()
                break
    return rows


def _compile(device: Device, kernel: Kernel) -> Binary | Outcome:
    return compile_candidate(kernel.task, kernel.candidate, device.spec.architecture)


def _measure(judge: DeviceJudge, kernel: Kernel, binary: "Future[Binary | Outcome]") -> Measured:
    """One evaluation; a harness that fails on one variant is told of, and the others go on."""
    try:
        binary.result()  # the evaluation finds it in the cache
        evaluation = judge.evaluate(kernel.task, kernel.candidate)
    except (KernelBlasterError, OSError, RuntimeError) as error:
        return _row(kernel, type(error).__name__, str(error))
    return measured(kernel, evaluation)


def measured(kernel: Kernel, evaluation: Evaluation) -> Measured:
    outcome, timing = evaluation.outcome, evaluation.timing
    if timing is None or outcome.kind not in CORRECT:
        told = [getattr(outcome, name, "") for name in ("reason", "evidence", "log")]
        return _row(kernel, outcome.kind, " ".join(t for t in told if t)[:500])
    speedup = timing.speedup
    return _row(
        kernel,
        outcome.kind,
        "",
        candidate_us=timing.candidate_us,
        low_us=timing.candidate_us * speedup.estimate / speedup.high,
        high_us=timing.candidate_us * speedup.estimate / speedup.low,
        samples=timing.samples,
        baseline_us=timing.baseline_us,
    )


def _row(kernel: Kernel, outcome: str, reason: str, **times: float | None) -> Measured:
    precision = "" if kernel.task.dtype == "float32" else f" ({kernel.task.dtype})"
    return Measured(
        file=kernel.file,
        defines=dict(kernel.candidate.defines),
        source=_digest(kernel),
        task=kernel.task.name.removeprefix(f"{ROOT}/") + precision,
        family=kernel.family,
        outcome=outcome,
        reason=reason,
        **times,  # type: ignore[arg-type]
    )


def _digest(kernel: Kernel) -> str:
    return hashlib.sha256(kernel.candidate.source.encode()).hexdigest()[:16]


def _save(device: str, rows: Sequence[Measured], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    about = {"device": device, "torch": torch.__version__, "variants": [asdict(r) for r in rows]}
    out.write_text(json.dumps(about, indent=1) + "\n")


def modelled_us(device: EmulatedDevice, kernel: Kernel) -> float:
    """What the model says of one call on the primary workload."""
    binary = _compile(device, kernel)
    if not isinstance(binary, Binary):
        raise KernelBlasterError(f"{kernel.title}: {binary.kind}: {getattr(binary, 'reason', '')}")
    timer = ModelledTimer(device, kernel.task, ModuleBaseline(kernel.task, device, small=True))
    return total_us(timer.profiles([binary])[0])


@dataclass(frozen=True)
class Pair:
    """A variant's measured and modelled time, in microseconds."""

    row: Measured
    real_us: float
    model_us: float


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Correlation of ranks; None where there are too few or all are equal."""
    if len(one) < 3 or len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return statistics.correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their places."""
    places = defaultdict(list)
    for place, value in enumerate(sorted(values)):
        places[value].append(place)
    return [statistics.mean(places[v]) for v in values]


def named(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Of all twos of one task that really differ: in how many the model names the faster, and how many."""
    right = total = 0
    for one, other in combinations(pairs, 2):
        if one.row.task != other.row.task:
            continue
        slow, fast = sorted((one, other), key=lambda p: -p.real_us)
        if slow.real_us > (1 + APART) * fast.real_us:
            total += 1
            right += slow.model_us > fast.model_us
    return right, total


def replay(
    device: EmulatedDevice, stored: Path, only: str, out: Path | None, folder: Path = FOLDER
) -> list[Pair]:
    """Model every stored variant that was correct and whose source is unchanged."""
    about = json.loads(stored.read_text())
    by_title = {k.title: k for k in all_variants(only, folder)}
    pairs, missing = [], []
    for row in (Measured(**r) for r in about["variants"]):
        if only not in row.title:
            continue
        kernel = by_title.get(row.title)
        if row.candidate_us is None:
            missing.append(f"- {row.title}: {row.outcome}: {row.reason}")
        elif kernel is None or _digest(kernel) != row.source:
            missing.append(f"- {row.title}: its source has changed since it was measured")
        else:
            try:
                pairs.append(Pair(row, row.candidate_us, modelled_us(device, kernel)))
                print(
                    f"{row.title}: {row.candidate_us:.1f} us, modelled {pairs[-1].model_us:.1f}", flush=True
                )
            except (KernelBlasterError, CandidateDied, CandidateHung) as error:
                missing.append(f"- {row.title}: not modelled: {error}")
    if not pairs:
        raise KernelBlasterError(f"no variant of {stored} could be modelled: {'; '.join(missing[:3])}")
    text = report(about["device"], pairs, missing)
    if out:
        out.write_text(text)
    print(text)
    return pairs


def report(device: str, pairs: Sequence[Pair], missing: Sequence[str]) -> str:
    groups = {"all": list(pairs)}
    for pair in sorted(pairs, key=lambda p: p.row.family):
        groups.setdefault(pair.row.family, []).append(pair)
    lines = [
        f"# Modelled against measured times on {device}",
        "",
        f"{len(pairs)} variants of {len(groups) - 1} families. A pair is two variants of one task whose "
        f"measured times differ by more than {100 * APART:.0f} %; it is right if the model names the faster.",
        "The error is the factor by which a modelled time is off; the bias its geometric mean with its sign.",
        "",
        "| family | variants | rank correlation | pairs | right | median error | 90th percentile | bias |",
        "|---|---|---|---|---|---|---|---|",
        *(_summary(name, group) for name, group in groups.items()),
        "",
        "| variant | task | measured us | modelled us | ratio |",
        "|---|---|---|---|---|",
    ]
    for p in sorted(pairs, key=lambda p: (p.row.family, p.row.task, p.real_us)):
        ratio = p.model_us / p.real_us
        cells = [p.row.title, p.row.task, f"{p.real_us:.1f}", f"{p.model_us:.1f}", f"{ratio:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    if missing:
        lines += ["", "Not compared:", "", *missing]
    return "\n".join(lines) + "\n"


def _summary(name: str, group: Sequence[Pair]) -> str:
    correlation = spearman([p.real_us for p in group], [p.model_us for p in group])
    right, total = named(group)
    logs = [math.log(p.model_us / p.real_us) for p in group]
    errors = sorted(math.exp(abs(log)) for log in logs)
    cells = [
        name,
        str(len(group)),
        "" if correlation is None else f"{correlation:.3f}",
        str(total),
        f"{100 * right / total:.0f} %" if total else "",
        f"{statistics.median(errors):.2f}",
        f"{errors[math.ceil(0.9 * len(errors)) - 1]:.2f}",
        f"{math.exp(statistics.mean(logs)):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def check(judge: DeviceJudge, chosen: Sequence[Kernel]) -> int:
    """Verify each variant at its task's small workload; how many are not right."""
    wrong = 0
    for number, kernel in enumerate(chosen, 1):
        outcome = judge.check(kernel.task, kernel.candidate).outcome
        detail = "right"
        if not isinstance(outcome, Verification):
            wrong += 1
            detail = f"{outcome.kind} {getattr(outcome, 'reason', '')} {getattr(outcome, 'evidence', '')}"
        print(f"{number}/{len(chosen)} {kernel.title}: {detail}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} variants are right")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {name: commands.add_parser(name) for name in ("record", "replay", "check")}
    for each in parsers.values():
        each.add_argument("--only", default="", help="variants whose title contains this")
        each.add_argument("--folder", type=lambda text: Path(text).resolve(), default=FOLDER)
    parsers["record"].add_argument("--out", type=Path, default=ROOT / "results" / "variants.json")
    parsers["record"].add_argument("--limit", type=float, default=400, help="seconds after which to stop")
    parsers["replay"].add_argument("--measured", type=Path, default=ROOT / "results" / "variants.json")
    parsers["replay"].add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "replay":
        emulated = EmulatedDevice()
        replay(emulated, arguments.measured, arguments.only, arguments.out, arguments.folder)
        emulated.close()
        return 0
    device: Device = CudaDevice() if arguments.command == "record" else EmulatedDevice()
    judge = DeviceJudge(device)
    chosen = all_variants(arguments.only, arguments.folder)
    try:
        if arguments.command == "check":
            return 1 if check(judge, chosen) else 0
        rows = record(judge, chosen, arguments.out, arguments.limit)
        right = sum(r.candidate_us is not None for r in rows)
        print(f"{right} of {len(chosen)} variants measured on {device.name}")
        return 0 if right == len(chosen) else 1
    finally:
        judge.close()
        device.close()


if __name__ == "__main__":
    sys.exit(main())
