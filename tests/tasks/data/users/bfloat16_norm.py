import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, dtype=torch.bfloat16)

    def forward(self, x):
        return self.norm(x) * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(4096, 2048, dtype=torch.bfloat16)]


def get_init_inputs():
    return [2048]
