import torch
import torch.nn as nn

batch = 128
in_channels = 96
squeeze_channels = 16
expand_channels = 64
height = 54
width = 54
SMALL = {
    "batch": 2,
    "in_channels": 13,
    "squeeze_channels": 5,
    "expand_channels": 7,
    "height": 11,
    "width": 13,
}


class Model(nn.Module):
    """A narrow 1 by 1 convolution feeds a 1 by 1 and a 3 by 3 one; both, ReLU'd, side by side."""

    def __init__(self, in_channels, squeeze_channels, expand_channels):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeeze_channels, kernel_size=1)
        self.expand1 = nn.Conv2d(squeeze_channels, expand_channels, kernel_size=1)
        self.expand3 = nn.Conv2d(squeeze_channels, expand_channels, kernel_size=3, padding=1)

    def forward(self, x):
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.expand1(x)), torch.relu(self.expand3(x))], dim=1)


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, squeeze_channels, expand_channels]
