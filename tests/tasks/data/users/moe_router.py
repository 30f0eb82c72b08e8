import torch
import torch.nn as nn
import torch.nn.functional as F


class TopKRouter(nn.Module):
    def __init__(self, dim=512, experts=16, k=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.k = k

    def forward(self, x):
        logits = self.gate(x)
        weights, chosen = torch.topk(logits, self.k, dim=-1)
        return F.softmax(weights, dim=-1), chosen


def get_inputs():
    return [torch.randn(8192, 512)]
