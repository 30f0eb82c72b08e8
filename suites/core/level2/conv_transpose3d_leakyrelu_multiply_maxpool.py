import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 16
in_channels = 32
out_channels = 24
depth = 16
height = 32
width = 40
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
pool_size = 2
SMALL = {
    "batch": 2,
    "in_channels": 3,
    "out_channels": 5,
    "depth": 3,
    "height": 5,
    "width": 7,
}


class Model(nn.Module):
    """Transposed convolution of volumes, leaky ReLU, a factor a channel, maximum of blocks."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size):
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.pool = nn.MaxPool3d(pool_size)

    def forward(self, x):
        return self.pool(F.leaky_relu(self.conv(x), 0.25) * self.factor)


def get_inputs():
    return [torch.randn(batch, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size]
