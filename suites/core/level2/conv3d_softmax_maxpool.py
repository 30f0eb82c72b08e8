import torch
import torch.nn as nn

batch = 8
in_channels = 16
out_channels = 24
depth = 32
height = 80
width = 80
kernel_size = 3
pool_size = 2
SMALL = {
    "batch": 2,
    "in_channels": 3,
    "out_channels": 5,
    "depth": 7,
    "height": 9,
    "width": 11,
}


class Model(nn.Module):
    """Convolution of volumes, softmax over the channels, largest value of 2 by 2 by 2 blocks."""

    def __init__(self, in_channels, out_channels, kernel_size, pool_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.pool = nn.MaxPool3d(pool_size)

    def forward(self, x):
        return self.pool(torch.softmax(self.conv(x), dim=1))


def get_inputs():
    return [torch.randn(batch, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size]
