import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 20480
dim = 3584
SMALL = {"batch": 13, "dim": 189}


class Model(nn.Module):
    """Mean Huber loss, quadratic up to delta and linear beyond, one number."""

    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, predictions, targets):
        return F.huber_loss(predictions, targets, delta=self.delta)


def get_inputs():
    # A scale drawn once: without it the mean would hardly depend on the seed.
    return [torch.randn(batch, dim) * (0.5 + torch.rand(1)), torch.randn(batch, dim)]


def get_init_inputs():
    return [1.25]
