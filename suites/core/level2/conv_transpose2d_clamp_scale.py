import torch
import torch.nn as nn

batch = 48
in_channels = 64
out_channels = 48
height = 80
width = 80
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 3, "height": 9, "width": 11}


class Model(nn.Module):
    """Transposed convolution that doubles the size, clamp to plus or minus a limit, scale."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, limit, scale):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            output_padding=output_padding,
        )
        self.limit = limit
        self.scale = scale

    def forward(self, x):
        return torch.clamp(self.conv(x), -self.limit, self.limit) * self.scale


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, 0.5, 1.5]
