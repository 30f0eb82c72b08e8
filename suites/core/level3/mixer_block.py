import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 96
tokens = 196
dim = 512
token_hidden = 256
channel_hidden = 2048
SMALL = {"batch": 2, "tokens": 13, "dim": 28, "token_hidden": 19, "channel_hidden": 45}


class Model(nn.Module):
    """MLP-Mixer layer: an MLP across the tokens, then one across the channels, both residual."""

    def __init__(self, tokens, dim, token_hidden, channel_hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.token_up = nn.Linear(tokens, token_hidden)
        self.token_down = nn.Linear(token_hidden, tokens)
        self.norm2 = nn.LayerNorm(dim)
        self.channel_up = nn.Linear(dim, channel_hidden)
        self.channel_down = nn.Linear(channel_hidden, dim)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token_down(F.gelu(self.token_up(y))).transpose(1, 2)
        return x + self.channel_down(F.gelu(self.channel_up(self.norm2(x))))


def get_inputs():
    return [torch.randn(batch, tokens, dim)]


def get_init_inputs():
    return [tokens, dim, token_hidden, channel_hidden]
