import torch
import torch.nn as nn

batch = 32
in_channels = 32
out_channels = 64
height = 152
width = 152
kernel_size = 3
padding = 1
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "height": 11, "width": 13}


class Model(nn.Module):
    """Convolution, normalization of each channel of each image, division by a constant."""

    def __init__(self, in_channels, out_channels, kernel_size, padding, divisor):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, bias=False)
        self.norm = nn.InstanceNorm2d(out_channels)
        self.divisor = divisor

    def forward(self, x):
        return self.norm(self.conv(x)) / self.divisor


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding, 2.5]
