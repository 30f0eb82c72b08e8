import torch
import torch.nn as nn

batch = 16
in_channels = 16
channels = 32
height = 128
width = 144
SMALL = {"batch": 2, "in_channels": 3, "channels": 5, "height": 12, "width": 14}


def double_conv(in_channels, out_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
        nn.Conv2d(out_channels, out_channels, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )


class Model(nn.Module):
    """One level of a U-Net: convolve, halve, convolve, double, join with the skip, convolve."""

    def __init__(self, in_channels, channels):
        super().__init__()
        self.encode = double_conv(in_channels, channels)
        self.pool = nn.MaxPool2d(2)
        self.bottom = double_conv(channels, 2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, kernel_size=2, stride=2)
        self.decode = double_conv(2 * channels, channels)

    def forward(self, x):
        skip = self.encode(x)
        up = self.up(self.bottom(self.pool(skip)))
        return self.decode(torch.cat([skip, up], dim=1))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, channels]
