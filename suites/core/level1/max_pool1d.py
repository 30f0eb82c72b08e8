import torch
import torch.nn as nn

batch = 48
channels = 160
length = 12000
kernel_size = 5
stride = 2
padding = 2
SMALL = {"batch": 2, "channels": 7, "length": 173}


class Model(nn.Module):
    """Largest value in overlapping windows along the last dimension."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [kernel_size, stride, padding]
