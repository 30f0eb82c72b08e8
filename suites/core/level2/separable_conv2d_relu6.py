import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 32
in_channels = 96
out_channels = 160
height = 112
width = 112
kernel_size = 3
padding = 1
SMALL = {"batch": 2, "in_channels": 11, "out_channels": 9, "height": 11, "width": 15}


class Model(nn.Module):
    """One 3 by 3 filter a channel, then 1 by 1 filters over all channels, clamp to 0 .. 6."""

    def __init__(self, in_channels, out_channels, kernel_size, padding):
        super().__init__()
        self.depthwise = nn.Conv2d(in_channels, in_channels, kernel_size, padding=padding, groups=in_channels)
        self.pointwise = nn.Conv2d(in_channels, out_channels, kernel_size=1)

    def forward(self, x):
        return F.relu6(self.pointwise(self.depthwise(x)))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding]
