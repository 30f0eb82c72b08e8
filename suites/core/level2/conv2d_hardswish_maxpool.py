import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 64
in_channels = 32
out_channels = 64
height = 120
width = 120
kernel_size = 3
pool_size = 2
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "height": 13, "width": 15}


class Model(nn.Module):
    """Convolution, hard Swish, largest value of 2 by 2 blocks."""

    def __init__(self, in_channels, out_channels, kernel_size, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.pool = nn.MaxPool2d(pool_size)

    def forward(self, x):
        return self.pool(F.hardswish(self.conv(x)))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size]
