import torch
import torch.nn as nn

batch = 8
channels = 36
depth = 56
height = 72
width = 72
kernel_size = 3
stride = 2
padding = 1
SMALL = {"batch": 2, "channels": 3, "depth": 9, "height": 11, "width": 13}


class Model(nn.Module):
    """Largest value in 3 by 3 by 3 windows that overlap by one."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, depth, height, width)]


def get_init_inputs():
    return [kernel_size, stride, padding]
