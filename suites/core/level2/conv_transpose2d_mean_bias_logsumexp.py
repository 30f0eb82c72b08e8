import torch
import torch.nn as nn

batch = 48
in_channels = 64
out_channels = 96
height = 64
width = 64
kernel_size = 4
stride = 2
SMALL = {"batch": 3, "in_channels": 5, "out_channels": 7, "height": 9, "width": 11}


class Model(nn.Module):
    """Transposed convolution, mean over the image, a bias a channel, log-sum-exp over channels.

    Without padding every product reaches the mean: sums of x and of the weight are enough.
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.bias = nn.Parameter(torch.randn(out_channels))

    def forward(self, x):
        return torch.logsumexp(self.conv(x).mean(dim=(2, 3)) + self.bias, dim=1)


def get_inputs():
    # Each channel has its own mean: the means over images of plain noise would all be alike.
    offset = torch.randn(batch, in_channels, 1, 1) * 4
    return [torch.randn(batch, in_channels, height, width) + offset]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
