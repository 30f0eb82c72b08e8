import torch
import torch.nn as nn


class ExponentialSmoothing(nn.Module):
    def __init__(self, alpha: float = 0.3):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        state = x[:, 0]
        out = [state]
        for t in range(1, x.shape[1]):
            state = self.alpha * x[:, t] + (1 - self.alpha) * state
            out.append(state)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(65536, 32)]
