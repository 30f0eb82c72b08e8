import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x, verbose: bool = False):
        self.calls += 1
        self.steps += 1
        if verbose:
            print("shape", tuple(x.shape))
        y = torch.relu(x)
        return y / (y.sum(dim=1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(4096, 1000), False]
