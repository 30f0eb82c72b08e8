import torch
import torch.nn.functional as F
from torch import nn

bags = 6144
length = 48
words = 16000
dim = 192
SMALL = {"bags": 3, "length": 5, "words": 50, "dim": 36}


class Model(nn.Module):
    """For each bag of indices the weighted sum of these rows of a table."""

    def forward(self, table, index, weight):
        return (F.embedding(index, table) * weight.unsqueeze(-1)).sum(1)


def get_inputs():
    return [torch.randn(words, dim), torch.randint(0, words, (bags, length)), torch.rand(bags, length)]


def get_init_inputs():
    return []
