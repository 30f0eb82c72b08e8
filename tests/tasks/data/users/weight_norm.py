import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import weight_norm


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = weight_norm(nn.Linear(512, 1024))

    def forward(self, x):
        return torch.tanh(self.proj(x))


def get_inputs():
    return [torch.randn(4096, 512)]
