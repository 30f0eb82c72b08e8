import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(768, 2)

    def forward(self, hidden):
        logits = self.head(hidden)
        return {"logits": logits, "probabilities": logits.softmax(-1)}


def get_inputs():
    return [torch.randn(16, 512, 768)]


def get_init_inputs():
    return []
