import torch
import torch.nn as nn

batch = 32
channels = 64
height = 208
width = 224
kernel_size = 3
stride = 2
padding = 1
SMALL = {"batch": 2, "channels": 5, "height": 21, "width": 27}


class Model(nn.Module):
    """Largest value in 3 by 3 windows that overlap by one."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [kernel_size, stride, padding]
