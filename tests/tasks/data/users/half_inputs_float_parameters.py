import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(1024, 4096, bias=False)

    def forward(self, x):
        return F.gelu(self.proj(x))


def get_inputs():
    return [torch.randn(2048, 1024).half()]


def get_init_inputs():
    return []
