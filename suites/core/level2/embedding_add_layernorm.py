import torch
import torch.nn as nn

vocabulary = 32000
dim = 1024
batch = 64
length = 1024
SMALL = {"vocabulary": 83, "dim": 44, "batch": 3, "length": 15}


class Model(nn.Module):
    """Token and position embeddings added and layer-normalized, as a language model begins."""

    def __init__(self, vocabulary, length, dim):
        super().__init__()
        self.token = nn.Embedding(vocabulary, dim)
        self.position = nn.Parameter(torch.randn(length, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        return self.norm(self.token(tokens) + self.position[: tokens.shape[1]])


def get_inputs():
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs():
    return [vocabulary, length, dim]
