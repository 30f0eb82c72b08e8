"""A model of somebody's own, before and after one of its modules was replaced by an optimized one.

    python benchmarks/drop_in.py [--budget 8] [--out results/drop-in.md]

The model is a token mixer of a few blocks: each has a row-wise normalization with a gate, and a product. That
normalization is optimized with `kb.optimize(module, [x])`, exported, loaded from its file by plain PyTorch,
and put into every block. Outputs are compared on inputs that the search has not seen, at the size that was
optimized and at another one; the whole model is timed end to end, in turns, with CUDA events. Exits with 1 if
outputs differ. Without a GPU the outputs are those of the fallback, and nothing is timed.
"""

import argparse
import importlib.util
import statistics
import tempfile
from pathlib import Path
from types import ModuleType

import torch
import torch.nn.functional as F
from publish import publish
from torch import nn

import kernelblaster as kb

ROWS, WIDTH, BLOCKS, TURNS = 8192, 2048, 4, 30


class GatedNorm(nn.Module):
    """What a person would write: three operators over rows, and a gate."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.gate = nn.Parameter(torch.rand(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        return normed * torch.sigmoid(x * self.gate) + F.gelu(x)


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(GatedNorm() for _ in range(BLOCKS))
        self.products = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(BLOCKS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, product in zip(self.norms, self.products, strict=True):
            x = x + product(norm(x))
        return x


def exported(path: Path) -> ModuleType:
    """The module that a file defines, loaded as any program would."""
    spec = importlib.util.spec_from_file_location("fast_norm", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def replaced(model: Mixer, fast: type[nn.Module], device: str) -> Mixer:
    """A copy of the model in which every norm is of the optimized type and has the same weights."""
    other = Mixer().to(device)
    for at, norm in enumerate(model.norms):
        one = fast().to(device)
        one.load_state_dict(norm.state_dict())
        other.norms[at] = one
    other.products.load_state_dict(model.products.state_dict())
    return other.eval()


def in_turns_ms(models: dict[str, nn.Module], x: torch.Tensor) -> dict[str, list[float]]:
    """Times of whole calls of each model in milliseconds, one of each in every turn."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(TURNS + 5):
        for name, model in models.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            model(x)
            end.record()
            end.synchronize()
            if turn >= 5:
                times[name].append(start.elapsed_time(end))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--budget", type=int, default=8)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = Mixer().to(device).eval()
    rows = ROWS if device == "cuda" else 64
    x = torch.randn(rows, WIDTH, device=device)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        norm = GatedNorm().to(device)
        found = kb.optimize(norm, [torch.randn(ROWS, WIDTH, device=device)], budget=options.budget)
        file = Path(folder) / "fast_norm.py"
        found.export(file)
        fast = replaced(model, exported(file).OptimizedModel, device)
        apart = {}
        for count in (rows, rows // 2 - 3):
            y = x[:count] * 1.5
            one, other, exact = model(y), fast(y), model.double()(y.double())
            model.float()
            scale = exact.pow(2).mean().sqrt()
            apart[count] = [
                float((one - exact).pow(2).mean().sqrt() / scale),
                float((other - exact).pow(2).mean().sqrt() / scale),
            ]
        lines = [
            "# An optimized module in somebody's own model",
            "",
            f"{BLOCKS} blocks of a gated RMS norm and a product, {rows} x {WIDTH}, float32; the norm was",
            f"optimized with {options.budget} candidates.",
            f"The search: {found}".replace("\n", " "),
            "",
            "| rows | relative RMS error of the original | with the optimized module |",
            "|---|---|---|",
            *(f"| {count} | {own:.2e} | {ours:.2e} |" for count, (own, ours) in apart.items()),
        ]
        if device == "cuda":
            times = in_turns_ms(
                {"original": model, "torch.compile": torch.compile(model), "optimized": fast}, x
            )
            medians = {name: statistics.median(values) for name, values in times.items()}
            lines += ["", "| whole model | ms, median of 30 | original over it |", "|---|---|---|"]
            lines += [
                f"| {name} | {ms:.3f} | {medians['original'] / ms:.3f} |" for name, ms in medians.items()
            ]
            alone = in_turns_ms({"original": model.norms[0], "optimized": fast.norms[0]}, x)
            ratio = statistics.median(alone["original"]) / statistics.median(alone["optimized"])
            lines += ["", f"The module alone, called from PyTorch: {ratio:.2f} times as fast."]
    publish(lines, options.out)
    return int(any(ours > 2 * own + 1e-6 for own, ours in apart.values()))


if __name__ == "__main__":
    raise SystemExit(main())
