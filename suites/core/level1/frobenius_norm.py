import torch
import torch.nn as nn

batch = 16
rows = 2048
cols = 2176
SMALL = {"batch": 3, "rows": 21, "cols": 37}


class Model(nn.Module):
    """Divides the whole tensor by the root of the sum of all its squares."""

    def forward(self, x):
        return x / torch.linalg.vector_norm(x)


def get_inputs():
    return [torch.randn(batch, rows, cols)]


def get_init_inputs():
    return []
