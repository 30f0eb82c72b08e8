import torch
import torch.nn as nn

batch = 8
in_channels = 16
out_channels = 32
depth = 32
height = 88
width = 96
kernel_size = 3
padding = 1
SMALL = {
    "batch": 2,
    "in_channels": 3,
    "out_channels": 5,
    "depth": 5,
    "height": 7,
    "width": 9,
}


class Model(nn.Module):
    """Convolution of volumes with 3 by 3 by 3 filters, the size kept."""

    def __init__(self, in_channels, out_channels, kernel_size, padding):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding]
