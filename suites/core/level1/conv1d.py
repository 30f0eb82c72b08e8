import torch
import torch.nn as nn

batch = 32
in_channels = 64
out_channels = 96
length = 24576
kernel_size = 5
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 7, "length": 83}


class Model(nn.Module):
    """Convolution along one dimension, without padding."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
