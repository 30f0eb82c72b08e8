"""A task in a file: a module, its inputs, and what it is built with. `task_from_a_file.py` uses it."""

import torch
import torch.nn as nn

rows = 8192
columns = 4096
SMALL = {"rows": 5, "columns": 70}  # for the emulator; it may be left out


class Model(nn.Module):
    """Scales each row by its largest magnitude."""

    def forward(self, x):
        return x / x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
