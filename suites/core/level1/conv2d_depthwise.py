import torch
import torch.nn as nn

batch = 56
channels = 128
height = 112
width = 112
kernel_size = 3
padding = 1
SMALL = {"batch": 2, "channels": 7, "height": 17, "width": 21}


class Model(nn.Module):
    """Convolution with one 3 by 3 filter a channel, channels not mixed."""

    def __init__(self, channels, kernel_size, padding):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=padding, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, kernel_size, padding]
