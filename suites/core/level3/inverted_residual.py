import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 48
channels = 24
expansion = 6
height = 112
width = 112
SMALL = {"batch": 2, "channels": 5, "height": 11, "width": 13}


class Model(nn.Module):
    """MobileNet block with hard Swish: widen, a 3 by 3 filter a channel, narrow, plus the input."""

    def __init__(self, channels, expansion):
        super().__init__()
        hidden = channels * expansion
        self.expand = nn.Conv2d(channels, hidden, kernel_size=1, bias=False)
        self.norm1 = nn.BatchNorm2d(hidden)
        self.depthwise = nn.Conv2d(hidden, hidden, kernel_size=3, padding=1, groups=hidden, bias=False)
        self.norm2 = nn.BatchNorm2d(hidden)
        self.project = nn.Conv2d(hidden, channels, kernel_size=1, bias=False)
        self.norm3 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.hardswish(self.norm1(self.expand(x)))
        y = F.hardswish(self.norm2(self.depthwise(y)))
        return x + self.norm3(self.project(y))


def get_inputs():
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs():
    return [channels, expansion]
