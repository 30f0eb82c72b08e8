import torch
import torch.nn as nn

batch = 32
in_channels = 96
out_channels = 160
height = 128
width = 120
SMALL = {"batch": 2, "in_channels": 13, "out_channels": 11, "height": 9, "width": 15}


class Model(nn.Module):
    """Convolution with 1 by 1 filters: channels are mixed at each pixel alone."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels]
