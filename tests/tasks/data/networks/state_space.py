"""A state-space model in chunks: cumulative sums, masks by triangle, contractions by einsum."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
seq_length = 128
n_heads = 8
d_head = 64
d_state = 16
block_len = 64


class Model(nn.Module):
    def __init__(self, batch_size, seq_length, n_heads, d_head, d_state, block_len):
        super().__init__()
        assert seq_length % block_len == 0, "sequence length must be divisible by block length"
        self.block_len = block_len
        self.A = nn.Parameter(torch.randn(batch_size, seq_length, n_heads))
        self.B = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))
        self.C = nn.Parameter(torch.randn(batch_size, seq_length, n_heads, d_state))

    def segsum(self, x):
        T = x.size(-1)
        total = torch.cumsum(x, dim=-1)
        segments = total[..., :, None] - total[..., None, :]
        mask = torch.tril(torch.ones(T, T, device=x.device, dtype=bool), diagonal=0)
        return segments.masked_fill(~mask, -torch.inf)

    def forward(self, X, initial_states=None):
        b, s, h, _ = X.shape
        X, A, B, C = [
            x.reshape(b, s // self.block_len, self.block_len, *x.shape[2:]) for x in (X, self.A, self.B, self.C)
        ]
        A = A.permute(0, 3, 1, 2)
        total = torch.cumsum(A, dim=-1)
        L = torch.exp(self.segsum(A))
        diagonal = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", C, B, L, X)
        decay = torch.exp(total[:, :, :, -1:] - total)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", B, decay, X)
        if initial_states is None:
            initial_states = torch.zeros_like(states[:, :1])
        states = torch.cat([initial_states, states], dim=1)
        chunks = torch.exp(self.segsum(F.pad(total[:, :, :, -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", chunks, states)[:, :-1]
        moved = torch.einsum("bclhn,bchpn,bhcl->bclhp", C, states, torch.exp(total))
        return (diagonal + moved).reshape(b, s, h, -1)


def get_inputs():
    return [torch.rand(batch_size, seq_length, n_heads, d_head)]


def get_init_inputs():
    return [batch_size, seq_length, n_heads, d_head, d_state, block_len]
