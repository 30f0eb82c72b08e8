import math
from typing import Optional

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None, scale: float = None) -> Tensor:
        scale = scale or 1 / math.sqrt(q.size(-1))
        scores = q @ k.transpose(-2, -1) * scale
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ v


def get_inputs():
    return [torch.randn(4, 8, 512, 64), torch.randn(4, 8, 512, 64), torch.randn(4, 8, 512, 64), None]
