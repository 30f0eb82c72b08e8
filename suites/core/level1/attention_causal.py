import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 2
heads = 16
length = 2048
head_dim = 128
SMALL = {"batch": 2, "heads": 3, "length": 19, "head_dim": 24}


class Model(nn.Module):
    """Self-attention in which a position sees itself and what came before; queries, keys and
    values are stacked in one tensor."""

    def forward(self, qkv):
        q, k, v = qkv.unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(3, batch, heads, length, head_dim)]


def get_init_inputs():
    return []
