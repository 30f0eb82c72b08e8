import torch
import torch.nn as nn

batch = 32
in_channels = 64
out_channels = 128
height = 120
width = 136
kernel_size = 3
padding = 1
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "height": 11, "width": 13}


class Model(nn.Module):
    """Convolution of images with 3 by 3 filters, the size kept."""

    def __init__(self, in_channels, out_channels, kernel_size, padding):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding]
