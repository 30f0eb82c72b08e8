import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 16
length = 512
dim = 512
heads = 8
feedforward = 2048
SMALL = {"batch": 2, "length": 9, "dim": 40, "feedforward": 52}


class Model(nn.Module):
    """Self-attention over all positions and a GELU feed-forward layer, normalized after each."""

    def __init__(self, dim, heads, feedforward):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, feedforward)
        self.down = nn.Linear(feedforward, dim)
        self.norm2 = nn.LayerNorm(dim)

    def attend(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


def get_inputs():
    return [torch.randn(batch, length, dim)]


def get_init_inputs():
    return [dim, heads, feedforward]
