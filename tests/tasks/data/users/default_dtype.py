import torch
import torch.nn as nn
import torch.nn.functional as F


torch.set_default_dtype(torch.bfloat16)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2048, 2048)

    def forward(self, x):
        return torch.tanh(self.fc(x))


def get_inputs():
    return [torch.randn(2048, 2048)]


def get_init_inputs():
    return []
