import torch
import torch.nn as nn

batch = 8
length = 1024
dim = 768
heads = 12
SMALL = {"batch": 2, "length": 11, "dim": 48}


class Model(nn.Module):
    """Layer normalization, causal self-attention written out, projection, plus the input."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        length = x.shape[1]
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        scores = torch.matmul(q, k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        return x + self.out(torch.matmul(weights, v).transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(batch, length, dim)]


def get_init_inputs():
    return [dim, heads]
