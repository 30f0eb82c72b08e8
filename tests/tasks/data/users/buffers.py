import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("scale", torch.full((1,), 0.5), persistent=False)

    def forward(self, frames):
        return frames * self.window * self.scale


def get_inputs():
    return [torch.randn(30000, 400)]


def get_init_inputs():
    return [400]
