import torch
import torch.nn as nn

# first half of a diffusion resnet block
block = nn.Sequential(nn.GroupNorm(32, 320), nn.SiLU())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = block

    def forward(self, x, temb):
        return self.block(x) + temb[:, :, None, None]


def get_inputs():
    return torch.randn(8, 320, 64, 64), torch.randn(8, 320)
