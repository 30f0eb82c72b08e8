import torch
import torch.nn as nn

batch = 8
length = 2048
heads = 32
head_dim = 128
SMALL = {"batch": 2, "length": 9, "heads": 3, "head_dim": 28}


class Model(nn.Module):
    """RMS normalization of each head, then rotation of its two halves by given angles."""

    def __init__(self, head_dim, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(head_dim) + 0.5)
        self.eps = eps

    def forward(self, x, cos, sin):
        x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight
        first, second = x.chunk(2, dim=-1)
        cos = cos[:, None, :]
        sin = sin[:, None, :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def get_inputs():
    angle = torch.rand(length, head_dim // 2) * 6.28
    return [torch.randn(batch, length, heads, head_dim), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return [head_dim, 1e-6]
