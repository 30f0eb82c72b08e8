import torch
from torch import nn

batch = 8
channels = 96
height = 112
width = 112
SMALL = {"batch": 2, "channels": 3, "height": 13, "width": 17}


class Model(nn.Module):
    """Each channel of an image filtered by a window of 7 by 7 of its own."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Conv2d(channels, channels, 7, padding=3, groups=channels, bias=False)

    def forward(self, x):
        return self.filter(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return []
