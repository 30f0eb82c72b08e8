import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 4
heads = 12
length = 2048
head_dim = 64
SMALL = {"batch": 2, "heads": 3, "length": 21, "head_dim": 20}


class Model(nn.Module):
    """Attention with the positive feature map elu + 1 instead of a softmax.

    (Q K^T) V can be taken as Q (K^T V), linear in the length.
    """

    def forward(self, q, k, v):
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        scores = torch.matmul(q, k.transpose(-1, -2))
        return torch.matmul(scores, v) / scores.sum(dim=-1, keepdim=True)


def get_inputs():
    q = torch.randn(batch, heads, length, head_dim)
    k = torch.randn(batch, heads, length, head_dim)
    v = torch.randn(batch, heads, length, head_dim)
    return [q, k, v]


def get_init_inputs():
    return []
