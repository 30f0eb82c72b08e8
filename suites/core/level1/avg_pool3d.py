import torch
import torch.nn as nn

batch = 12
channels = 28
depth = 48
height = 80
width = 80
kernel_size = 2
SMALL = {"batch": 2, "channels": 3, "depth": 9, "height": 13, "width": 15}


class Model(nn.Module):
    """Mean over disjoint 2 by 2 by 2 blocks; what is left over at an odd edge is dropped."""

    def __init__(self, kernel_size):
        super().__init__()
        self.pool = nn.AvgPool3d(kernel_size)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(batch, channels, depth, height, width)]


def get_init_inputs():
    return [kernel_size]
