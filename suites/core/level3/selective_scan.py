import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
length = 128
dim = 512
inner = 1024
state = 16
rank = 32
SMALL = {"batch": 2, "length": 9, "dim": 22, "inner": 26, "state": 6, "rank": 5}


class Model(nn.Module):
    """Mamba-like layer: a state whose decay, input and output depend on each position of x,
    scanned along the length, gated and projected back."""

    def __init__(self, dim, inner, state, rank):
        super().__init__()
        self.splits = [rank, state, state]
        self.in_proj = nn.Linear(dim, 2 * inner, bias=False)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.log_decay = nn.Parameter(torch.rand(inner, state) * 2 - 3)
        self.skip = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, dim, bias=False)

    def scan(self, x, dt, b, c):
        decay = torch.exp(-dt[..., None] * torch.exp(self.log_decay))
        update = (dt * x)[..., None] * b[:, :, None, :]
        h = torch.zeros_like(update[:, 0])
        steps = []
        for t in range(x.shape[1]):
            h = decay[:, t] * h + update[:, t]
            steps.append((h * c[:, t, None, :]).sum(dim=-1))
        return torch.stack(steps, dim=1) + self.skip * x

    def forward(self, x):
        x, gate = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(x)
        rank, b, c = self.x_proj(x).split(self.splits, dim=-1)
        y = self.scan(x, F.softplus(self.dt_proj(rank)), b, c)
        return self.out_proj(y * F.silu(gate))


def get_inputs():
    return [torch.randn(batch, length, dim)]


def get_init_inputs():
    return [dim, inner, state, rank]
