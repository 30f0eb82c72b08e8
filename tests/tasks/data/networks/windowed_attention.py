"""Attention in shifted windows: a constructor that reads values, positions by look-up, windows by views."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4
image = 64
patch = 4
embed_dim = 24
depths = [2, 2]
num_heads = [3, 6]
window = 4


def windows_of(x, size):
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, C)


def joined(windows, size, H, W):
    B = int(windows.shape[0] / (H * W / size / size))
    x = windows.view(B, H // size, W // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class Attention(nn.Module):
    def __init__(self, dim, size, heads):
        super().__init__()
        self.dim, self.size, self.heads = dim, size, heads
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones((heads, 1, 1))))
        self.cpb = nn.Sequential(nn.Linear(2, 32), nn.ReLU(inplace=True), nn.Linear(32, heads, bias=False))
        h = torch.arange(-(size - 1), size, dtype=torch.float32)
        table = torch.stack(torch.meshgrid([h, h], indexing="ij")).permute(1, 2, 0).contiguous().unsqueeze(0)
        table = torch.sign(table * 8) * torch.log2(torch.abs(table * 8) + 1.0)
        self.register_buffer("table", table, persistent=False)
        coords = torch.stack(torch.meshgrid([torch.arange(size), torch.arange(size)], indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += size - 1
        relative[:, :, 1] += size - 1
        relative[:, :, 0] *= 2 * size - 1
        self.register_buffer("index", relative.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.q_bias, requires_grad=False), self.q_bias))
        qkv = F.linear(input=x, weight=self.qkv.weight, bias=bias)
        q, k, v = qkv.reshape(B_, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scale = torch.clamp(self.logit_scale, max=torch.log(torch.tensor(1.0 / 0.01))).exp()
        table = self.cpb(self.table).view(-1, self.heads)
        bias = table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = attn * scale + 16 * torch.sigmoid(bias).unsqueeze(0)
        if mask is not None:
            count = mask.shape[0]
            attn = attn.view(B_ // count, count, self.heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.heads, N, N)
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B_, N, C))


class Block(nn.Module):
    def __init__(self, dim, resolution, heads, size, shift, drop_path):
        super().__init__()
        self.resolution, self.size, self.shift, self.drop_path = resolution, size, shift, drop_path
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, size, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        mask = None
        if shift > 0:
            H, W = resolution
            regions = torch.zeros((1, H, W, 1))
            slices = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
            count = 0
            for h in slices:
                for w in slices:
                    regions[:, h, w, :] = count
                    count += 1
            windows = windows_of(regions, size).view(-1, size * size)
            mask = windows.unsqueeze(1) - windows.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        self.register_buffer("mask", mask)

    def forward(self, x):
        H, W = self.resolution
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"
        shortcut = x
        x = x.view(B, H, W, C)
        if self.shift > 0:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        x = windows_of(x, self.size).view(-1, self.size * self.size, C)
        x = self.attn(x, mask=self.mask).view(-1, self.size, self.size, C)
        x = joined(x, self.size, H, W)
        if self.shift > 0:
            x = torch.roll(x, shifts=(self.shift, self.shift), dims=(1, 2))
        x = shortcut + self.norm1(x.view(B, H * W, C)) * (1 - self.drop_path)
        return x + self.norm2(self.mlp(x))


class Model(nn.Module):
    def __init__(self, image, patch, dim, depths, heads, size):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)
        drop = [x.item() for x in torch.linspace(0, 0.1, sum(depths))]
        side = image // patch
        self.blocks = nn.ModuleList()
        self.merges = nn.ModuleList()
        for stage, depth in enumerate(depths):
            self.blocks.append(
                nn.ModuleList(
                    Block(dim * 2**stage, (side, side), heads[stage], size, size // 2 * (i % 2), drop[i])
                    for i in range(depth)
                )
            )
            if stage + 1 < len(depths):
                self.merges.append(nn.Linear(4 * dim * 2**stage, 2 * dim * 2**stage, bias=False))
                side //= 2
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.proj(x).flatten(2).transpose(1, 2)
        for stage, blocks in enumerate(self.blocks):
            for block in blocks:
                x = block(x)
            if stage < len(self.merges):
                B, L, C = x.shape
                H = W = int(L**0.5)
                x = x.view(B, H, W, C)
                parts = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
                x = self.merges[stage](torch.cat(parts, -1).view(B, -1, 4 * C))
        return x.mean(1)


def get_inputs():
    return [torch.rand(batch_size, 3, image, image)]


def get_init_inputs():
    return [image, patch, embed_dim, depths, num_heads, window]
