import torch
import torch.nn as nn

batch = 32
channels = 64
height = 208
width = 208
groups = 8
SMALL = {"batch": 3, "channels": 24, "height": 9, "width": 11}


class Model(nn.Module):
    """Group normalization of images, with scale and shift a channel."""

    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [groups, channels]
