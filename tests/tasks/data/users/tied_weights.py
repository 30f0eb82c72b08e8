import torch
import torch.nn as nn


class TiedHead(nn.Module):
    def __init__(self, vocab=8000, dim=256):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.norm(self.embed(ids)))


def get_inputs():
    return [torch.randint(0, 8000, (4, 256))]
