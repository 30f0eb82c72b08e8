import torch
import torch.nn as nn

batch = 48
in_channels = 64
out_channels = 32
height = 96
width = 104
kernel_size = 4
stride = 2
padding = 1
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 3, "height": 9, "width": 11}


class Model(nn.Module):
    """Transposed convolution with 4 by 4 filters that doubles the size of images."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
