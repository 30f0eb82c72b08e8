import torch
import torch.nn as nn

batch = 64
in_channels = 128
mid_channels = 64
out_channels = 256
height = 64
width = 64
stride = 2
SMALL = {
    "batch": 2,
    "in_channels": 9,
    "mid_channels": 7,
    "out_channels": 11,
    "height": 11,
    "width": 13,
}


class Model(nn.Module):
    """Narrowing, 3 by 3 and widening convolutions at half the size, plus a projected shortcut."""

    def __init__(self, in_channels, mid_channels, out_channels, stride):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(),
            nn.Conv2d(mid_channels, mid_channels, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(),
            nn.Conv2d(mid_channels, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )
        self.shortcut = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x):
        return torch.relu(self.branch(x) + self.shortcut(x))


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, mid_channels, out_channels, stride]
