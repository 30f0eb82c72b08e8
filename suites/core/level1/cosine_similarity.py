import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 28672
dim = 2304
SMALL = {"batch": 15, "dim": 149}


class Model(nn.Module):
    """Cosine of the angle between each row of a and the same row of b."""

    def forward(self, a, b):
        return F.cosine_similarity(a, b, dim=-1)


def get_inputs():
    a = torch.randn(batch, dim)
    return [a, torch.randn(batch, 1) * a + torch.randn(batch, dim)]


def get_init_inputs():
    return []
