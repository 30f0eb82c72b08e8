import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 512)
        self.fc2 = nn.Linear(512, 10)

    def forward(self, x):
        x = x.view(x.size(0), 784)
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def get_inputs():
    return [torch.randn(1024, 1, 28, 28)]


def get_init_inputs():
    return []
