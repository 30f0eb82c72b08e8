import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
length = 1024
dim = 1024
query_heads = 16
key_heads = 4
head_dim = 64
feedforward = 2816
SMALL = {"batch": 2, "length": 9, "dim": 36, "head_dim": 12, "feedforward": 44}


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


class Model(nn.Module):
    """Decoder layer of a language model: RMS normalization, causal attention whose key heads
    are shared by groups of query heads, and a SwiGLU feed-forward layer."""

    def __init__(self, dim, query_heads, key_heads, head_dim, feedforward):
        super().__init__()
        self.query_heads = query_heads
        self.key_heads = key_heads
        self.norm1 = nn.Parameter(torch.rand(dim) + 0.5)
        self.q = nn.Linear(dim, query_heads * head_dim, bias=False)
        self.k = nn.Linear(dim, key_heads * head_dim, bias=False)
        self.v = nn.Linear(dim, key_heads * head_dim, bias=False)
        self.out = nn.Linear(query_heads * head_dim, dim, bias=False)
        self.norm2 = nn.Parameter(torch.rand(dim) + 0.5)
        self.gate = nn.Linear(dim, feedforward, bias=False)
        self.up = nn.Linear(dim, feedforward, bias=False)
        self.down = nn.Linear(feedforward, dim, bias=False)

    def attend(self, x):
        q = self.q(x).unflatten(-1, (self.query_heads, -1)).transpose(1, 2)
        k = self.k(x).unflatten(-1, (self.key_heads, -1)).transpose(1, 2)
        v = self.v(x).unflatten(-1, (self.key_heads, -1)).transpose(1, 2)
        shared_by = self.query_heads // self.key_heads
        k = k.repeat_interleave(shared_by, dim=1)
        v = v.repeat_interleave(shared_by, dim=1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(rms_norm(x, self.norm1))
        y = rms_norm(x, self.norm2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def get_inputs():
    return [torch.randn(batch, length, dim)]


def get_init_inputs():
    return [dim, query_heads, key_heads, head_dim, feedforward]
