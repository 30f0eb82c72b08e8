from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    dim: int = 1024
    hidden: int = 4096
    eps: float = 1e-5


class FeedForward(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.inner = nn.Linear(config.dim, config.hidden)
        self.outer = nn.Linear(config.hidden, config.dim)

    def forward(self, x):
        return F.layer_norm(x + self.outer(F.gelu(self.inner(x))), (self.config.dim,), eps=self.config.eps)


def get_init_inputs():
    return [Config()]


def get_inputs():
    return [torch.randn(4, 512, Config.dim)]
