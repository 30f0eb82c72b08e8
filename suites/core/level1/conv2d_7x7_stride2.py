import torch
import torch.nn as nn

batch = 128
in_channels = 3
out_channels = 64
height = 224
width = 224
kernel_size = 7
stride = 2
padding = 3
SMALL = {"batch": 2, "out_channels": 5, "height": 19, "width": 23}


class Model(nn.Module):
    """First convolution of an image classifier: three channels, 7 by 7 filters, half the size."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
