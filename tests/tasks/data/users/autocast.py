import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(1024, 2048)
        self.down = nn.Linear(2048, 1024)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.down(torch.relu(self.up(x)))


def get_inputs():
    return [torch.randn(1024, 1024)]
