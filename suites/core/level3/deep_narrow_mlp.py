import torch
import torch.nn as nn

batch = 32768
width = 256
depth = 16
SMALL = {"batch": 7, "width": 27}


class Model(nn.Module):
    """Perceptron of sixteen equal narrow layers with ReLU after each but the last."""

    def __init__(self, width, depth):
        super().__init__()
        layers = []
        for _ in range(depth):
            linear = nn.Linear(width, width)
            # PyTorch's default would let the signal die out within sixteen layers.
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            layers += [linear, nn.ReLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.net(x)


def get_inputs():
    return [torch.randn(batch, width)]


def get_init_inputs():
    return [width, depth]
