"""Fits the model of eager PyTorch to the measured times of the suite `core`, and says how good it is.

    python benchmarks/fit_eager.py [--out results/eager-model.md] [--rates src/.../eager_rates.toml]

Least squares of the logarithm of modelled over measured time. Every parameter is drawn weakly
towards its prior: a round number, or another family's value times a factor, so that a family which
few tasks use stays near its relatives, and one which no task uses is its prior. Left-out figures are
those of each task in a fit to all others. The families and the priors were chosen with these tasks in
sight, so other modules will be met less well.
"""

import argparse
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.judge.eager_model import EagerRates, steps_us
from kernelblaster.judge.eager_trace import Step, trace
from kernelblaster.tasks.catalog import find, load_file

MEASURED = Path("results/suite.md")
PULL = 0.01  # weight of a prior, against 1 for a task
NUDGE = 1e-4

# Parameter: its prior, or (the relative, the factor).
PRIORS: dict[str, float | tuple[str, float]] = {
    "launch_us": 3.0,
    "host_us": 6.0,
    "view_us": ("host_us", 0.4),
    "bandwidth.pointwise": 0.8,
    "bandwidth.strided": ("bandwidth.pointwise", 0.7),
    "bandwidth.transposed": ("bandwidth.strided", 0.5),
    "bandwidth.reduction": ("bandwidth.pointwise", 1.0),
    "bandwidth.pair_reduction": ("bandwidth.reduction", 1.0),
    "bandwidth.moments": ("bandwidth.pair_reduction", 0.7),
    "bandwidth.softmax": ("bandwidth.reduction", 0.7),
    "bandwidth.softmax_across": ("bandwidth.softmax", 1.0),
    "bandwidth.layer_norm": ("bandwidth.softmax", 1.0),
    "bandwidth.batch_norm": ("bandwidth.softmax", 1.0),
    "bandwidth.scan": ("bandwidth.strided", 1.0),
    "bandwidth.scan_across": ("bandwidth.strided", 1.0),
    "bandwidth.gather": ("bandwidth.strided", 1.0),
    "bandwidth.layout": ("bandwidth.strided", 1.0),
    "bandwidth.conv_1x1": ("bandwidth.strided", 1.0),
    "bandwidth.sort": ("bandwidth.scan", 0.3),
    "bandwidth.other": ("bandwidth.strided", 0.7),
    "arithmetic.matmul": 0.7,
    "arithmetic.matmul_half": ("arithmetic.matmul", 0.9),
    "arithmetic.attention": ("arithmetic.matmul", 0.7),
    "arithmetic.attention_half": ("arithmetic.attention", 0.8),
    "arithmetic.conv": 0.5,
    "arithmetic.conv_1x1": ("arithmetic.conv", 1.0),
    "arithmetic.conv_3d": ("arithmetic.conv", 0.5),
    "arithmetic.conv_transposed": ("arithmetic.conv", 0.5),
    "arithmetic.conv_transposed_3d": ("arithmetic.conv_transposed", 0.5),
    "arithmetic.conv_plain": ("arithmetic.matmul", 0.7),
    "arithmetic.pool": 0.01,
    "arithmetic.pool_3d": ("arithmetic.pool", 0.5),
    "arithmetic.depthwise": ("arithmetic.pool", 1.0),
    "arithmetic.recurrent": 0.2,
}
NAMES = list(PRIORS)
Logs = np.ndarray  # the logarithms of the parameters, in the order of NAMES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rates", type=Path)
    arguments = parser.parse_args()
    measured = measured_us(MEASURED.read_text())
    traces = {name: trace((task := load_file(name, path)), task.primary) for name, path in find("core")}
    suite = Suite([traces[name] for name in measured], list(measured.values()), gpu_specs()["h200"])
    fitted = suite.fit(prior_logs(), rounds=12)
    users = users_by_parameter(list(traces.values()))
    table = rates_table(fitted, users)
    print(table)
    if arguments.rates:
        arguments.rates.write_text(table)
    left_out = [suite.errors_without([task], fitted)[0] for task in range(len(measured))]
    blocks = [task for task, name in enumerate(measured) if "/level3/" in name]
    errors = {
        "fitted": suite.errors(fitted),
        "left out": np.array(left_out),
        "level 3 from levels 1 and 2": suite.errors_without(blocks, fitted),
    }
    report = report_of(measured, errors, fitted=sum(count > 0 for count in users.values()))
    print("\n".join(report[:9]))
    if arguments.out:
        arguments.out.write_text("\n".join(report) + "\n")


def measured_us(text: str) -> dict[str, float]:
    rows = re.findall(r"^\| (\S+) \| yes \| yes \| (\d+) \|", text, re.MULTILINE)
    return {name: float(eager) for name, eager in rows}


class Suite:
    """The traced tasks with their measured times."""

    def __init__(self, traces: list[list[Step]], measured: list[float], spec: GpuSpec) -> None:
        self._traces, self._measured, self._spec = traces, measured, spec

    def errors(self, logs: Logs) -> np.ndarray:
        """Logarithm of modelled over measured, a task each."""
        rates = rates_of(logs)
        modelled = [steps_us(steps, self._spec, rates) for steps in self._traces]
        return np.log(np.array(modelled) / self._measured)

    def fit(self, start: Logs, rounds: int, without: Sequence[int] = ()) -> Logs:
        """Gauss-Newton; a step is at most a factor of two in each parameter."""
        weights = np.ones(len(self._traces))
        weights[list(without)] = 0
        pull, towards = prior_equations()
        logs = start
        for _ in range(rounds):
            errors = self.errors(logs)
            nudged = [self.errors(logs + NUDGE * unit) for unit in np.eye(len(logs))]
            slopes = np.stack([(n - errors) / NUDGE for n in nudged], axis=1)
            left = slopes.T @ (weights[:, None] * slopes) + PULL * pull.T @ pull
            right = slopes.T @ (weights * errors) + PULL * pull.T @ (pull @ logs - towards)
            logs = logs - np.clip(np.linalg.solve(left, right), -math.log(2), math.log(2))
        return logs

    def errors_without(self, tasks: Sequence[int], fitted: Logs) -> np.ndarray:
        """The errors of these tasks in a fit to the others."""
        return self.errors(self.fit(fitted, rounds=5, without=tasks))[list(tasks)]


def prior_equations() -> tuple[np.ndarray, np.ndarray]:
    """Rows that say: this parameter, less its relative, is the logarithm of the prior."""
    pull, towards = np.eye(len(NAMES)), np.zeros(len(NAMES))
    for row, prior in enumerate(PRIORS.values()):
        if isinstance(prior, tuple):
            pull[row, NAMES.index(prior[0])] = -1
        towards[row] = math.log(prior[1] if isinstance(prior, tuple) else prior)
    return pull, towards


def prior_logs() -> Logs:
    return np.linalg.solve(*prior_equations())


def rates_of(logs: Logs) -> EagerRates:
    tree: dict = {"bandwidth": {}, "arithmetic": {}}
    for name, value in zip(NAMES, np.exp(logs), strict=True):
        group, _, family = name.rpartition(".")
        (tree[group] if group else tree)[family] = float(value)
    return EagerRates(**tree)


def users_by_parameter(traces: list[list[Step]]) -> dict[str, int]:
    """How many tasks launch a kernel of each family; parameters without a family concern all."""
    families = [{step.family for step in steps if step is not None} for steps in traces]
    return {
        name: sum(name.rpartition(".")[2] in used for used in families) if "." in name else len(traces)
        for name in NAMES
    }


def rates_table(logs: Logs, users: dict[str, int]) -> str:
    """The text of eager_rates.toml."""
    lines = [
        "# How much of a GPU's peak rates eager PyTorch's kernels reach, by family; written by",
        "# benchmarks/fit_eager.py from results/suite.md. Each line: the tasks that it was fitted to.",
        "# Families without a task have their prior, which is a guess.",
        "",
    ]
    group = ""
    for name, value in zip(NAMES, np.exp(logs), strict=True):
        found, _, family = name.rpartition(".")
        if found != group:
            group = found
            of = "the device memory's rate" if group == "bandwidth" else "the unit's peak rate"
            lines += ["", f"[{group}] # shares of {of}"]
        lines.append(f"{family} = {value:.3g} # {users[name]}")
    return "\n".join(lines) + "\n"


def report_of(measured: dict[str, float], errors: dict[str, np.ndarray], fitted: int) -> list[str]:
    level3 = [took for name, took in measured.items() if "/level3/" in name]
    lines = [
        "# Modelled eager time of the suite `core` on NVIDIA H200",
        "",
        f"{len(measured)} tasks, {fitted} fitted parameters, traced with PyTorch {torch.__version__}, "
        "against the measured times of suite.md. Left out: each task in a fit to all others. An error of "
        "10 % is a factor of 1.1, up or down. The families and priors were chosen with these tasks in sight.",
        "",
        "| | rank correlation | median error | 90th percentile | largest |",
        "|---|---|---|---|---|",
        *(
            summary(title, measured.values() if len(found) == len(measured) else level3, found)
            for title, found in errors.items()
        ),
        "",
        "| task | measured us | modelled us | ratio | ratio, left out |",
        "|---|---|---|---|---|",
    ]
    rows = zip(measured.items(), errors["fitted"], errors["left out"], strict=True)
    for (name, took), error, other in rows:
        ratio = math.exp(error)
        lines.append(f"| {name} | {took:.0f} | {took * ratio:.0f} | {ratio:.2f} | {math.exp(other):.2f} |")
    return lines


def summary(title: str, measured: Iterable[float], errors: np.ndarray) -> str:
    size, eager = np.abs(errors), np.array(list(measured))
    ranks = [np.argsort(np.argsort(values)) for values in (eager, eager * np.exp(errors))]
    correlation = np.corrcoef(*ranks)[0, 1]
    shares = [f"{100 * math.expm1(v):.0f} %" for v in (np.median(size), np.quantile(size, 0.9), size.max())]
    return f"| {title} | {correlation:.3f} | {' | '.join(shares)} |"


if __name__ == "__main__":
    main()
