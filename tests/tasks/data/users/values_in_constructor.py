import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        base = torch.linspace(0.1, 2.0, size)
        self.largest = float(base.max())
        self.register_buffer("base", base / self.largest)

    def forward(self, x):
        return x * self.base * self.largest


def get_inputs():
    return [torch.randn(8000, 1200)]


def get_init_inputs():
    return [1200]
