import torch
import torch.nn as nn
import torch.nn.functional as F


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, skip):
        return self.conv(F.interpolate(x, scale_factor=2)) + skip


def get_init_inputs():
    return [32]
