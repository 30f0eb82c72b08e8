# Normiert Zeilen auf die Länge 1 – größer als null.
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, größe):
        return größe / größe.norm(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(9000, 700)]


def get_init_inputs():
    return []
