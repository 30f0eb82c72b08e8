import torch
import torch.nn as nn

batch = 64
in_channels = 32
out_channels = 64
height = 112
width = 112
kernel_size = 3
padding = 1
pool_size = 2
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "height": 13, "width": 15}


class Model(nn.Module):
    """Convolution, normalization with the batch's statistics, ReLU, mean of 2 by 2 blocks."""

    def __init__(self, in_channels, out_channels, kernel_size, padding, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)
        self.pool = nn.AvgPool2d(pool_size)

    def forward(self, x):
        return self.pool(torch.relu(self.norm(self.conv(x))))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding, pool_size]
