import torch
import torch.nn as nn

batch = 2048
classes = 50257
SMALL = {"batch": 5, "classes": 597}


class Model(nn.Module):
    """Log-softmax of each row; rows as long as a vocabulary, not aligned to 16 bytes."""

    def forward(self, logits):
        return torch.log_softmax(logits, dim=-1)


def get_inputs():
    return [torch.randn(batch, classes)]


def get_init_inputs():
    return []
