import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 32
channels = 128
length = 8000
kernel_size = 3
dilation = 4
SMALL = {"batch": 2, "channels": 9, "length": 71}


class Model(nn.Module):
    """Causal dilated convolution; tanh of one half times sigmoid of the other, plus the input."""

    def __init__(self, channels, kernel_size, dilation):
        super().__init__()
        self.conv = nn.Conv1d(channels, 2 * channels, kernel_size, dilation=dilation)
        self.history = (kernel_size - 1) * dilation

    def forward(self, x):
        signal, gate = self.conv(F.pad(x, (self.history, 0))).chunk(2, dim=1)
        return x + torch.tanh(signal) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels, kernel_size, dilation]
