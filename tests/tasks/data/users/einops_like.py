import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Patches of an image as rows: b c (h p) (w q) -> b (h w) (p q c)."""

    def forward(self, images):
        b, c, height, width = images.shape
        p = 16
        x = images.reshape(b, c, height // p, p, width // p, p)
        return x.permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)


def get_inputs():
    return [torch.rand(64, 3, 224, 224)]


def get_init_inputs():
    return []
