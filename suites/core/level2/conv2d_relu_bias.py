import torch
import torch.nn as nn

batch = 32
in_channels = 64
out_channels = 80
height = 128
width = 128
kernel_size = 3
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "height": 11, "width": 13}


class Model(nn.Module):
    """Convolution, ReLU, then a learned bias for each channel."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
