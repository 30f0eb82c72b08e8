import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, parts, weights=None):
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total if weights is None else total * weights


def get_inputs():
    return [[torch.randn(2000, 2000) for _ in range(3)], None]


def get_init_inputs():
    return []
