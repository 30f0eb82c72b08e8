import torch
import torch.nn as nn

batch = 32
in_channels = 64
growth = 32
layers = 4
height = 64
width = 64
SMALL = {"batch": 2, "in_channels": 7, "growth": 5, "height": 9, "width": 11}


class Model(nn.Module):
    """Layers of batch normalization, ReLU and 3 by 3 convolution, each fed by all before it."""

    def __init__(self, in_channels, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList()
        for index in range(layers):
            channels = in_channels + index * growth
            self.layers.append(
                nn.Sequential(
                    nn.BatchNorm2d(channels),
                    nn.ReLU(),
                    nn.Conv2d(channels, growth, kernel_size=3, padding=1, bias=False),
                )
            )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


def get_inputs():
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, growth, layers]
