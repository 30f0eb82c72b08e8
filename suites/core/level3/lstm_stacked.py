import torch
import torch.nn as nn

batch = 1
length = 512
in_features = 80
hidden = 256
layers = 3
SMALL = {"batch": 2, "length": 6, "in_features": 11, "hidden": 21}


class Model(nn.Module):
    """Three LSTM layers over the frames of one utterance, as in streaming speech recognition; the
    output of every step."""

    def __init__(self, in_features, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(in_features, hidden, num_layers=layers, batch_first=True)

    def forward(self, x):
        output, _ = self.lstm(x)
        return output


def get_inputs():
    return [torch.randn(batch, length, in_features)]


def get_init_inputs():
    return [in_features, hidden, layers]
