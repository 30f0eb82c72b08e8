import torch
import torch.nn as nn

batch = 64
length = 128
in_features = 256
hidden = 512
layers = 2
SMALL = {"batch": 3, "length": 7, "in_features": 19, "hidden": 23}


class Model(nn.Module):
    """Two LSTM layers that start from zero, time first; the output of every step."""

    def __init__(self, in_features, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(in_features, hidden, num_layers=layers)

    def forward(self, x):
        output, _ = self.lstm(x)
        return output


def get_inputs():
    return [torch.randn(length, batch, in_features)]


def get_init_inputs():
    return [in_features, hidden, layers]
