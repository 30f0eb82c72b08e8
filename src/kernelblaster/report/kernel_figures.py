"""`kernel_figures`: picks from a kernel's recorded profile the metrics that pages show."""

from typing import Any

METRICS = {
    "Duration": "us",
    "DRAM Throughput": "dram",
    "Compute (SM) Throughput": "compute",
    "Issue Slots Busy": "issue",
    "L1/TEX Cache Throughput": "l1",
    "L2 Cache Throughput": "l2",
    "Achieved Occupancy": "occupancy",
    "Registers Per Thread": "registers",
    "ptxas Spill Stores": "spills",
    "smsp__inst_executed.sum": "instructions",
    "dram__bytes_read.sum": "read",
    "dram__bytes_write.sum": "written",
}
SCALE = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def kernel_figures(kernel: dict[str, Any]) -> dict[str, Any]:
    """Returns those figures of a kernel that pages show, from its recorded profile: its "name", and metrics
    by the short names in METRICS ("us", "dram", "read"). Times are in microseconds, sizes in bytes,
    utilizations in percent. Metrics that were not measured are missing."""
    figures: dict[str, Any] = {"name": kernel["name"][:80]}
    for metric in kernel["metrics"]:
        short = METRICS.get(metric["name"])
        if short and isinstance(metric["value"], float):
            figures.setdefault(short, rounded(metric["value"] * SCALE.get(metric["unit"], 1.0)))
    return figures


def rounded(value: float) -> float:
    """The value with four significant digits, as pages show it."""
    return float(f"{value:.4g}")
