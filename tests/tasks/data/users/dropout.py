import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.dropout = nn.Dropout(p)
        self.norm = nn.LayerNorm(1024)

    def forward(self, x, residual):
        return self.norm(residual + self.dropout(x))


def get_inputs():
    return [torch.randn(4096, 1024), torch.randn(4096, 1024)]
