import torch
import torch.nn as nn

batch = 64
length = 128
in_features = 384
hidden = 512
SMALL = {"batch": 3, "length": 7, "in_features": 19, "hidden": 23}


class Model(nn.Module):
    """A GRU layer in both directions from given states, time first; two outputs: every step, and
    the last states."""

    def __init__(self, in_features, hidden):
        super().__init__()
        self.gru = nn.GRU(in_features, hidden, bidirectional=True)

    def forward(self, x, h0):
        output, last = self.gru(x, h0)
        return output, last


def get_inputs():
    return [torch.randn(length, batch, in_features), torch.randn(2, batch, hidden)]


def get_init_inputs():
    return [in_features, hidden]
