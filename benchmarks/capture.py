"""How long a deep module takes to load and to be captured: processor seconds.

    python benchmarks/capture.py [--out results/capture.md]

Networks of 100 and 200 layers of several kinds, and recurrences over 512 steps, as PyTorch's own module and
as a loop in Python. Loading derives the signature and workloads, capturing gives the expert's graph. No GPU
is needed.
"""

import argparse
import time
from pathlib import Path

import torch

from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.tasks.catalog import load_source

FILE = """import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
width = {width}
SMALL = {{"batch": 2, "width": {small}}}


{body}


def get_inputs():
    return [torch.rand(batch, {shape})]


def get_init_inputs():
    return []
"""
RESIDUAL = """class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(4 * width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity()
        if inputs != 4 * width:
            self.shortcut = nn.Conv2d(inputs, 4 * width, 1, stride=stride)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        out += self.shortcut(x)
        return self.relu(out)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3), nn.BatchNorm2d(width), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], width
        for stage, depth in enumerate({depths}):
            for block in range(depth):
                blocks.append(Block(inputs, width * 2**stage, 2 if stage and not block else 1))
                inputs = 4 * width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, 1000)
        self.eval()

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(x.mean((2, 3)))"""
DENSE = """def layer(inputs, growth):
    return nn.Sequential(
        *(nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), nn.Conv2d(inputs, 4 * growth, 1, bias=False)),
        *(nn.BatchNorm2d(4 * growth), nn.ReLU(inplace=True)),
        nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
    )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 2 * width, 7, 2, 3)
        self.blocks, self.transitions, channels = nn.ModuleList(), nn.ModuleList(), 2 * width
        for depth in {depths}:
            self.blocks.append(nn.ModuleList(layer(channels + i * width, width) for i in range(depth)))
            channels += depth * width
            self.transitions.append(nn.Sequential(nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)))
            channels //= 2
        self.fc = nn.Linear(channels, 1000)
        self.eval()

    def forward(self, x):
        x = self.stem(x)
        for layers, transition in zip(self.blocks, self.transitions):
            features = [x]
            for layer in layers:
                features.append(layer(torch.cat(features, 1)))
            x = transition(torch.cat(features, 1))
        return self.fc(x.mean((2, 3)))"""
TRANSFORMER = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
            for _ in range({depths})
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x"""
LOOP = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.{depths}(width, 2 * width)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 2 * width)
        for t in range(512):
            h = self.cell(x[:, t], h)
        return h"""
RECURRENCE = """class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{depths}(width, 2 * width, 6, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0]"""
IMAGE = "3, 224, 224"
# Title, module, depth or kind, shape of an example, width and small width.
CASES: tuple[tuple[str, str, object, str, int, int], ...] = (
    ("residual network, 101 layers", RESIDUAL, (3, 4, 23, 3), IMAGE, 64, 2),
    ("residual network, 200 layers", RESIDUAL, (3, 24, 36, 3), IMAGE, 64, 2),
    ("dense network, 121 layers", DENSE, (6, 12, 24, 16), IMAGE, 32, 2),
    ("dense network, 201 layers", DENSE, (6, 12, 48, 32), IMAGE, 32, 2),
    ("transformer, 48 layers", TRANSFORMER, 48, "256, width", 512, 16),
    ("recurrence in Python, 512 steps", LOOP, "RNNCell", "512, width", 128, 8),
    ("gated recurrence in Python, 512 steps", LOOP, "GRUCell", "512, width", 128, 8),
    ("nn.LSTM, 6 layers, 512 steps", RECURRENCE, "LSTM", "512, width", 128, 8),
    ("nn.GRU, 6 layers, 512 steps", RECURRENCE, "GRU", "512, width", 128, 8),
)


def row(title: str, body: str, depths: object, shape: str, width: int, small: int) -> str:
    """A line of the table: the module of one case, loaded and captured."""
    source = FILE.format(body=body.format(depths=depths), shape=shape, width=width, small=small)
    start = time.process_time()
    task = load_source(title, source, "task.py")
    loaded = time.process_time()
    try:
        found = f"{len(capture(task).nodes)} operators"
    except (UncoveredOperators, NotUniform) as error:
        found = str(error).partition(" A language model")[0]
    return f"| {title} | {loaded - start:.1f} | {time.process_time() - loaded:.1f} | {found} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| module | load, s | capture, s | captured |", "|---|---|---|---|"]
    row(*CASES[-1])  # so that what PyTorch imports at its first use is not counted
    print(*lines, sep="\n")
    for case in CASES:
        lines.append(row(*case))
        print(lines[-1], flush=True)
    if options.out:
        head = "# How long deep modules take to load and to be captured\n\nProcessor seconds, one core.\n"
        options.out.write_text("\n".join([head, *lines]) + "\n")


if __name__ == "__main__":
    main()
