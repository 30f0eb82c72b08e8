"""Whether the limits of precision admit honest arithmetic and refuse coarser: every task, many arithmetics.

python benchmarks/calibration.py measure [TASK ...] [--jobs 2] [--raw calibration.json.gz]
python benchmarks/calibration.py report [--raw calibration.json.gz] [--out results/calibration.md]
"""

import argparse
import gzip
import json
import math
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from arithmetic import EAGER, TF32_IN_CONVOLUTIONS, VARIANTS, Variant
from interpreter import Interpreter

from kernelblaster.judge.error_share import MEASURES
from kernelblaster.judge.precision import ROUNDING, bound, compare, pooled
from kernelblaster.judge.terms import LongestSum
from kernelblaster.judge.truth import scattered
from kernelblaster.records import Task, Workload
from kernelblaster.records.evaluation import Errors
from kernelblaster.tasks.catalog import find, load_file
from kernelblaster.tasks.reference import ModuleReference, open_reference
from kernelblaster.tasks.values import Distribution, fill, perturb

RAW = Path("calibration.json.gz")
OUT = Path(__file__).parents[1] / "results" / "calibration.md"
DISTRIBUTIONS: tuple[Distribution, ...] = ("written", "scaled", "large", "shifted", "ramp", "spiky")
LONG_DISTRIBUTIONS: tuple[Distribution, ...] = ("written", "shifted", "ramp", "spiky")
LARGEST_BYTES = 10_000_000  # of a tiny workload, whose parameters are those of the primary one
# Sums as long as on the primary workload (up to 65536 terms where they run over everything), of a few rows.
LONG: dict[str, dict[str, int]] = {
    "level1/attention": {"q_0": 1, "q_1": 1, "q_2": 16, "q_3": 64, "k_2": 2048, "v_3": 64},
    "level1/cosine_similarity": {"a_0": 64, "a_1": 2304},
    "level1/cross_entropy": {"logits_0": 32, "logits_1": 4000},
    "level1/cumsum": {"x_0": 8, "x_1": 8192},
    "level1/frobenius_norm": {"x_0": 4, "x_1": 64, "x_2": 256},
    "level1/hinge_loss": {"predictions_0": 64, "predictions_1": 1024},
    "level1/l2_norm": {"x_0": 16, "x_1": 1536},
    "level1/log_softmax": {"logits_0": 4, "logits_1": 50257},
    "level1/logsumexp": {"x_0": 64, "x_1": 6016},
    "level1/masked_cumsum": {"x_0": 8, "x_1": 7168},
    "level1/matmul_large_k": {"a_0": 4, "a_1": 196608, "b_1": 4},
    "level1/matmul_square": {"a_0": 24, "a_1": 4096, "b_1": 24},
    "level1/matmul_vector": {"a_0": 64, "a_1": 9216},
    "level1/mean_middle": {"x_0": 2, "x_1": 1024, "x_2": 64},
    "level1/mean_variance": {"x_0": 64, "x_1": 5120},
    "level1/mse_loss": {"predictions_0": 64, "predictions_1": 1024},
    "level1/reverse_cumsum": {"x_0": 8, "x_1": 5120},
    "level1/batch_norm": {"x_0": 16, "x_1": 80, "x_2": 32, "x_3": 32},
    "level1/instance_norm": {"x_0": 1, "x_1": 2, "x_2": 240, "x_3": 240},
    "level1/softmax": {"x_0": 4, "x_1": 12288},
    "level1/sum_all": {"x_0": 64, "x_1": 1024},
    "level1/sum_columns": {"x_0": 65536, "x_1": 48},
    "level1/sum_rows": {"x_0": 64, "x_1": 10240},
    "level2/gated_cumsum_normalize": {"x_0": 8, "x_1": 6144},
}
Values = tuple[list[torch.Tensor], list[torch.Tensor]]


def workloads(task: Task) -> Iterator[tuple[Workload, tuple[Distribution, ...]]]:
    """Sizes that a host can deal with, with their distributions of values."""
    assert task.small is not None
    yield task.small, DISTRIBUTIONS
    tiny = task.workload("tiny")
    if tiny.total_bytes(task.signature) < LARGEST_BYTES:
        yield tiny, ("written", "scaled")
    sizes = LONG.get(task.name.removeprefix("core/"))
    if sizes:
        yield task.primary.model_copy(update={"name": "long", "sizes": sizes}), LONG_DISTRIBUTIONS


class Case:
    """One draw of values: the truth, PyTorch's own outputs, and those after one rounding of the inputs."""

    def __init__(
        self, task: Task, reference: ModuleReference, workload: Workload, values: Distribution, seed: int
    ) -> None:
        self.task, self.reference, self.workload, self.values, self.seed = (
            task,
            reference,
            workload,
            values,
            seed,
        )
        self.floats = self._draw(torch.float32)
        wide = self._draw(torch.float64)
        with LongestSum() as longest, reference.in_float64():
            self.truth = [t.clone() for t in self._run(wide)]
        self.terms = longest.terms
        for tensor in (*wide[0], *wide[1]):
            if tensor.is_floating_point():
                tensor.mul_(1 + ROUNDING[torch.float32] * scattered(tensor, seed))
        with reference.in_float64():
            self.shaken = [t.clone() for t in self._run(wide)]
        eager = Interpreter(EAGER, only_convolutions=True)
        with eager:
            self.own = [t.clone() for t in self._run(self.floats)]
        self.convolves = eager.used

    def outputs(self, variant: Variant) -> list[torch.Tensor] | None:
        """None where the variant differs in nothing that the task uses."""
        mode = Interpreter(variant)
        given = self.floats
        if variant.read is not None:
            given = tuple([variant.read(t) if t.is_floating_point() else t for t in side] for side in given)
            if all(map(torch.equal, (*given[0], *given[1]), (*self.floats[0], *self.floats[1]))):
                return None
        with mode:
            results = self._run(given)
        if variant.written is not None:
            results = [variant.written(t) if t.is_floating_point() else t for t in results]
        elif variant.read is None and not mode.used:
            return None
        return results

    def _draw(self, dtype: torch.dtype) -> Values:
        signature = self.task.signature

        def empty(tensor: Any) -> torch.Tensor:
            kept = getattr(torch, tensor.dtype)
            return torch.empty(self.workload.shape(tensor), dtype=dtype if kept.is_floating_point else kept)

        inputs = [empty(t) for t in signature.input_tensors]
        parameters = [empty(t) for t in signature.parameters]
        for position, target in enumerate(inputs):
            fill(target, self.reference.pools[position], self.values, self.workload, self.seed + position)
        for position, target in enumerate(parameters):
            original = self.reference.parameters[position]
            perturb(target, original, self.seed + 1000 + position)
        return inputs, parameters

    def _run(self, values: Values) -> list[torch.Tensor]:
        self.reference.bind(values[1])
        return self.reference.run(values[0])


def errors_of(
    output: torch.Tensor, truth: torch.Tensor, own: torch.Tensor | None = None
) -> list[float] | None:
    found = compare(output, truth, own).errors
    return None if found is None else [float(f"{getattr(found, m):.3g}") for m in MEASURES]


def measure(name: str) -> list[dict[str, Any]]:
    """All cases of one task: a row for each output, with the errors of every variant that differs."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    warnings.simplefilter("ignore")
    (found,) = find(name)
    task = load_file(*found)
    rows = []
    started = time.monotonic()
    for workload, distributions in workloads(task):
        reference = open_reference(task, workload, torch.device("cpu"))
        for values in distributions:
            draws = 1 if workload.name == "long" else 3
            for draw in range(draws):
                case = Case(task, reference, workload, values, 1 + draw)
                if draw and max(t.numel() for t in case.truth) > 4096:
                    break
                rows += _rows(case, draw)
    print(f"{name}: {len(rows)} rows, {time.monotonic() - started:.0f} s", flush=True)
    return rows


def _rows(case: Case, draw: int) -> Iterator[dict[str, Any]]:
    results = {v.name: case.outputs(v) for v in VARIANTS}
    for position, truth in enumerate(case.truth):
        own = case.own[position]
        found = {}
        for name, outputs in results.items():
            if outputs is not None and not torch.equal(outputs[position], own):
                plain = errors_of(outputs[position], truth)
                found[name] = [plain, None if plain is None else errors_of(outputs[position], truth, own)]
            elif outputs is not None:
                found[name] = "equal"
        yield {
            "task": case.task.name.removeprefix("core/"),
            "workload": case.workload.name,
            "values": case.values,
            "draw": draw,
            "output": case.task.signature.outputs[position].name,
            "floating": truth.is_floating_point(),
            "count": truth.numel(),
            "terms": case.terms,
            "convolves": case.convolves,
            "own": errors_of(own, truth),
            "moved": errors_of(case.shaken[position], truth),
            "found": found,
        }


# --- the report ------------------------------------------------------------------------------------------

FORMER_FACTORS = Errors(rms=10, worst=16, tile=16, relative=10, lost=5)
FORMER_FLOOR = Errors(rms=1, worst=4, tile=2, relative=2, lost=0)
KINDS: dict[str, str] = {v.name: v.kind for v in VARIANTS}
SLACK = 1.25  # one draw of errors against another


def former_bound(own: Errors, moved: Errors | None, _: torch.dtype, count: int, __: int) -> Errors:
    """The rule of before: factors over PyTorch's own error."""
    allowed = {}
    for m in MEASURES:
        condition = getattr(moved, m) if moved and count <= 1 << 16 else 0.0
        least = getattr(FORMER_FLOOR, m) * ROUNDING[torch.float32]
        allowed[m] = getattr(FORMER_FACTORS, m) * max(getattr(own, m), condition, least)
    return Errors(**allowed | {"lost": max(allowed["lost"], 1e-5, 2 / count)})


@dataclass
class Verdict:
    """Of one variant on one task: the largest share of what is allowed that a case uses up, under either
    rule, and whether its errors go beyond those of every honest arithmetic in some case."""

    task: str
    family: str
    variant: str
    kind: str
    former: float = 0.0
    share: float = 0.0
    measure: str = ""
    case: str = ""
    beyond: bool = False


def _errors(values: list[list[float]]) -> Errors:
    return pooled([Errors(**dict(zip(MEASURES, one, strict=True))) for one in values])


def _share(errors: Errors, allowed: Errors) -> tuple[float, str]:
    used = {m: getattr(errors, m) / getattr(allowed, m) if getattr(errors, m) else 0.0 for m in MEASURES}
    return max((share, measure) for measure, share in used.items())


def kind_of(row: dict[str, Any], variant: str) -> str:
    """Where PyTorch convolves in TF32, so may a candidate."""
    return TF32_IN_CONVOLUTIONS.get(variant, KINDS[variant]) if row["convolves"] else KINDS[variant]


def family_of(row: dict[str, Any]) -> str:
    found = row["found"]
    if row["convolves"]:
        return "convolutions"
    for variant, family in (
        ("one TF32 product", "products"),
        ("plain one-pass variance", "normalizations"),
        ("exp in half", "exponentials"),
        ("half sums", "sums"),
        ("sums left to right", "scans"),
    ):
        if variant in found:
            return family
    return "others"


def verdicts(rows: list[dict[str, Any]]) -> list[Verdict]:
    """By all cases of each task; draws of one case are taken together, as the judge does."""
    cases: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row["floating"] and row["own"] is not None:
            cases.setdefault(tuple(row[k] for k in ("task", "workload", "values", "output")), []).append(row)
    found: dict[tuple[str, str], Verdict] = {}
    for key, draws in cases.items():
        first = draws[0]
        own = _errors([d["own"] for d in draws])
        moved = [d["moved"] for d in draws if d["moved"]]
        given = (own, _errors(moved) if moved else None, torch.float32, first["count"], first["terms"])
        allowed, formerly = bound(*given), former_bound(*given)
        results: dict[str, tuple[Errors, Errors] | None] = {}
        for name in first["found"]:
            both = [d["found"][name] for d in draws if name in d["found"]]
            both = [[d["own"]] * 2 if b == "equal" else b for b, d in zip(both, draws, strict=False)]
            broken = any(b[0] is None for b in both)
            results[name] = None if broken else (_errors([b[0] for b in both]), _errors([b[1] for b in both]))
        fair = ("honest", "grey") if first["convolves"] else ("honest",)
        honest = [own, *(r[1] for n, r in results.items() if r and kind_of(first, n) in fair)]
        limit = {m: SLACK * max(getattr(e, m) for e in honest) for m in MEASURES}
        for name, result in results.items():
            task, kind = first["task"], kind_of(first, name)
            verdict = found.setdefault((task, name), Verdict(task, family_of(first), name, kind))
            former, share, measure = math.inf, math.inf, "not finite"
            if result is not None:
                former = _share(result[0], formerly)[0]
                share, measure = _share(result[1], allowed)
            verdict.former = max(verdict.former, former)
            verdict.beyond |= result is None or any(getattr(result[1], m) > limit[m] for m in MEASURES)
            if share >= verdict.share:
                verdict.share, verdict.measure, verdict.case = share, measure, f"{key[1]} {key[2]}"
    return list(found.values())


def rates(some: list[Verdict]) -> list[str]:
    """Honest refused, formerly and now; dishonest accepted, formerly and now; of these, beyond honest."""
    honest = [v for v in some if v.kind == "honest"]
    coarse = [v for v in some if v.kind == "dishonest"]
    accepted = [v for v in coarse if v.share <= 1]
    cells = [
        (sum(v.former > 1 for v in honest), len(honest)),
        (sum(v.share > 1 for v in honest), len(honest)),
        (sum(v.former <= 1 for v in coarse), len(coarse)),
        (len(accepted), len(coarse)),
    ]
    shown = [f"{n} of {of} ({n / of:.1%})" if of else "" for n, of in cells]
    return [*shown, str(sum(v.beyond for v in accepted)) if coarse else ""]


HEAD = "honest refused: before | now | dishonest accepted: before | now | beyond honest"


def report(found: list[Verdict], about: str) -> str:
    lines = [
        "# Calibration of the precision limits",
        "",
        about,
        "",
        f"| family | tasks | {HEAD} |",
        "|---" * 7 + "|",
    ]
    families = sorted({v.family for v in found})
    for family in [*families, "all"]:
        some = [v for v in found if family in (v.family, "all")]
        count = len({v.task for v in some})
        lines.append(f"| {' | '.join([family, str(count), *rates(some)])} |")
    lines += [
        "",
        "## By variant",
        "",
        f"| variant | kind | tasks | {HEAD} | largest share |",
        "|---" * 9 + "|",
    ]
    for name, kind in KINDS.items():
        some = [v for v in found if v.variant == name]
        if some:
            largest = f"{max(v.share for v in some):.2g}"
            lines.append(f"| {' | '.join([name, kind, str(len(some)), *rates(some), largest])} |")
    for title, chosen in (
        ("Honest, and refused", [v for v in found if v.kind == "honest" and v.share > 1]),
        ("Dishonest, accepted, and beyond what any honest one does",
         [v for v in found if v.kind == "dishonest" and v.share <= 1 and v.beyond]),
        ("Grey, and refused", [v for v in found if v.kind == "grey" and v.share > 1]),
    ):  # fmt: skip
        lines += [
            "",
            f"## {title}: {len(chosen)}",
            "",
            "| variant | task | share | measure | case |",
            "|---" * 5 + "|",
        ]
        for v in sorted(chosen, key=lambda v: (v.variant, -v.share)):
            lines.append(f"| {v.variant} | {v.task} | {v.share:.3g} | {v.measure} | {v.case} |")
    hidden = [v for v in found if v.kind == "dishonest" and v.share <= 1 and not v.beyond]
    lines += ["", f"## Dishonest, but no further off than honest arithmetic in any case: {len(hidden)}", ""]
    for name in KINDS:
        tasks = [v.task for v in hidden if v.variant == name]
        if tasks:
            lines.append(f"- {name}: {', '.join(tasks)}")
    return "\n".join(lines) + "\n"


def table(found: list[Verdict]) -> str:
    lines = ["task,family,variant,kind,share_before,share,measure,case,beyond_honest"]
    for v in found:
        shares = f"{v.former:.3g},{v.share:.3g},{v.measure},{v.case},{int(v.beyond)}"
        lines.append(f'{v.task},{v.family},"{v.variant}",{v.kind},{shares}')
    return "\n".join(lines) + "\n"


ABOUT = """\
Every task of `core` on a host, at sizes that it can deal with (`small`, `tiny`, and for {long} tasks sums as
long as on the primary workload), run with [other arithmetics](../benchmarks/arithmetic.py) and judged by the
limits of [judge.md](../docs/judge.md#4-verify). A variant is refused on a task where any case is. {cases}
cases, {pairs} pairs of a task and a variant that makes a difference there. PyTorch's own convolutions are
emulated as on a GPU, in TF32; there, TF32 is honest. "Before" are the limits up to decision 10, on the same
values. "Beyond honest": accepted, although in some case and by some measure further off than 1.25 times
PyTorch and every honest variant.

    python benchmarks/calibration.py measure --raw calibration.json.gz
    python benchmarks/calibration.py report --raw calibration.json.gz

Each pair, with its worst case, is in [calibration.csv](calibration.csv)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "report"))
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--raw", type=Path, default=RAW)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    if given.what == "report":
        rows = json.loads(gzip.decompress(given.raw.read_bytes()))
        found = verdicts(rows)
        cases = len({(r["task"], r["workload"], r["values"]) for r in rows})
        about = ABOUT.format(long=len(LONG), cases=cases, pairs=len(found))
        given.out.write_text(report(found, about))
        given.out.with_suffix(".csv").write_text(table(found))
        return
    if given.what == "measure":
        names = [name for one in given.tasks for name, _ in find(one)]
        if given.jobs > 1:
            with ProcessPoolExecutor(given.jobs) as pool:
                rows = [row for part in pool.map(measure, names) for row in part]
        else:
            rows = [row for name in names for row in measure(name)]
        given.raw.write_bytes(gzip.compress(json.dumps(rows).encode()))


if __name__ == "__main__":
    main()
