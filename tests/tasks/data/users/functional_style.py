import torch
import torch.nn as nn
import torch.nn.functional as F


def swiglu(x, w1, w2):
    return F.silu(x @ w1) * (x @ w2)


class Model(nn.Module):
    def forward(self, x, w1, w2):
        return swiglu(x, w1, w2)


def get_inputs():
    return [torch.randn(4096, 1024), torch.randn(1024, 2816), torch.randn(1024, 2816)]


def get_init_inputs():
    return []
