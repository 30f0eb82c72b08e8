"""A vision transformer: patches by unfold, a class token, layers of PyTorch's own."""

import torch
import torch.nn as nn

image_size = 224
patch_size = 16
num_classes = 10
dim = 128
depth = 2
heads = 4
mlp_dim = 256


class Model(nn.Module):
    def __init__(self, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim, channels=3):
        super().__init__()
        assert image_size % patch_size == 0
        num_patches = (image_size // patch_size) ** 2
        self.patch_size = patch_size
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.patch_to_embedding = nn.Linear(channels * patch_size**2, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        layer = nn.TransformerEncoderLayer(d_model=dim, nhead=heads, dim_feedforward=mlp_dim, dropout=0.0, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, num_layers=depth)
        self.to_cls_token = nn.Identity()
        self.mlp_head = nn.Sequential(nn.Linear(dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, num_classes))

    def forward(self, img):
        p = self.patch_size
        x = img.unfold(2, p, p).unfold(3, p, p).reshape(img.shape[0], -1, p * p * img.shape[1])
        x = self.patch_to_embedding(x)
        x = torch.cat((self.cls_token.expand(img.shape[0], -1, -1), x), dim=1)
        x = self.transformer(x + self.pos_embedding)
        return self.mlp_head(self.to_cls_token(x[:, 0]))


def get_inputs():
    return [torch.rand(2, 3, image_size, image_size)]


def get_init_inputs():
    return [image_size, patch_size, num_classes, dim, depth, heads, mlp_dim]
