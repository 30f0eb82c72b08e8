import torch
import torch.nn as nn

N_NODES, N_EDGES, FEATURES = 10000, 80000, 64


class MeanAggregate(nn.Module):
    def forward(self, h, src, dst):
        out = torch.zeros_like(h)
        out.index_add_(0, dst, h[src])
        deg = torch.zeros(h.size(0), device=h.device).index_add_(0, dst, torch.ones_like(dst, dtype=h.dtype))
        return out / deg.clamp(min=1).unsqueeze(-1)


def get_inputs():
    return [
        torch.randn(N_NODES, FEATURES),
        torch.randint(0, N_NODES, (N_EDGES,)),
        torch.randint(0, N_NODES, (N_EDGES,)),
    ]
