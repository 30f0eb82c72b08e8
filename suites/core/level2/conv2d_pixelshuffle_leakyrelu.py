import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 32
in_channels = 32
out_channels = 16
height = 144
width = 144
kernel_size = 3
padding = 1
upscale = 2
SMALL = {"batch": 2, "in_channels": 5, "out_channels": 3, "height": 11, "width": 13}


class Model(nn.Module):
    """Upsampling head: convolution, channels rearranged into 2 by 2 pixels, leaky ReLU."""

    def __init__(self, in_channels, out_channels, kernel_size, padding, upscale, slope):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels * upscale * upscale, kernel_size, padding=padding)
        self.shuffle = nn.PixelShuffle(upscale)
        self.slope = slope

    def forward(self, x):
        return F.leaky_relu(self.shuffle(self.conv(x)), self.slope)


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, padding, upscale, 0.125]
