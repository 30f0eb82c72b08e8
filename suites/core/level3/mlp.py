import torch
import torch.nn as nn

batch = 2048
in_features = 1024
hidden = 4096
out_features = 1000
SMALL = {"batch": 5, "in_features": 37, "hidden": 61, "out_features": 29}


class Model(nn.Module):
    """Perceptron with two wide hidden layers and ReLU."""

    def __init__(self, in_features, hidden, out_features):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(in_features, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, out_features),
        )

    def forward(self, x):
        return self.net(x)


def get_inputs():
    return [torch.randn(batch, in_features)]


def get_init_inputs():
    return [in_features, hidden, out_features]
