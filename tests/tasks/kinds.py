"""Modules of the kinds that public suites have, in a compact form: layers, forward(), inputs.

Each entry is (statements of __init__, the body of forward(), inputs). The parameters of forward() are x, y, z
in the order of the inputs; a body without `return` is the expression that is returned.
"""

import ast

HEAD = (
    "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    "from torch import rand, randn, randint\n"
)
KINDS: dict[str, tuple[str, str, str]] = {
    # products and contractions
    "einsum_batched": ("", "torch.einsum('bij,bjk->bik', x, y)", "randn(32, 128, 256), randn(32, 256, 64)"),
    "einsum_bilinear": (
        "self.w = nn.Parameter(randn(64, 48, 80))",
        "torch.einsum('bi,oij,bj->bo', x, self.w, y)",
        "randn(512, 48), randn(512, 80)",
    ),
    "einsum_diagonal": ("", "torch.einsum('bii->bi', x)", "randn(256, 128, 128)"),
    "outer_sum": ("", "x[:, None, :] + y[None, :, :]", "randn(128, 64), randn(96, 64)"),
    "matrix_chain": (
        "",
        "torch.linalg.multi_dot([x, y, z])",
        "randn(256, 64), randn(64, 512), randn(512, 32)",
    ),
    "product_transposed": ("", "torch.matmul(x.T, y.T)", "randn(512, 1024), randn(256, 512)"),
    "product_of_4d": ("", "torch.matmul(x, y)", "randn(8, 12, 256, 64), randn(8, 12, 64, 256)"),
    "triangular": ("", "torch.tril(torch.matmul(torch.tril(x), y))", "randn(512, 512), randn(512, 512)"),
    "diagonal_times": ("", "torch.diag(x) @ y", "randn(512), randn(512, 1024)"),
    "kronecker": ("", "torch.kron(x, y)", "randn(64, 32), randn(16, 24)"),
    "bilinear": ("self.b = nn.Bilinear(40, 56, 72)", "self.b(x, y)", "randn(256, 40), randn(256, 56)"),
    "outer": ("", "torch.outer(x, y)", "randn(2048), randn(1024)"),
    "batched_vectors": ("", "torch.bmm(x, y.unsqueeze(2)).squeeze(2)", "randn(64, 128, 256), randn(64, 256)"),
    "addmm_scaled": (
        "",
        "torch.addmm(x, y, z, beta=0.5, alpha=2.0)",
        "randn(256), randn(512, 128), randn(128, 256)",
    ),
    # along an axis
    "cumsum_exclusive": (
        "",
        "torch.cat((torch.zeros_like(x[:, :1]), torch.cumsum(x, 1)[:, :-1]), 1)",
        "randn(512, 2000)",
    ),
    "cumsum_reversed": ("", "torch.flip(torch.cumsum(torch.flip(x, [1]), 1), [1])", "randn(128, 4096)"),
    "cummax": ("", "torch.cummax(x, 1)[0]", "randn(256, 1024)"),
    "logcumsumexp": ("", "torch.logcumsumexp(x, dim=-1)", "randn(256, 1024)"),
    "product_along": ("", "torch.prod(x, dim=1)", "rand(64, 128, 96)"),
    "difference": ("", "torch.diff(x, dim=-1)", "randn(256, 1000)"),
    "sorted": ("", "return torch.sort(x, dim=1, descending=True)", "randn(128, 1000)"),
    "topk": ("self.k = 7", "return torch.topk(x, self.k, dim=-1)", "randn(256, 1000)"),
    "norm_of_1": ("", "x / torch.mean(torch.abs(x), dim=1, keepdim=True)", "randn(512, 3000)"),
    "var_mean": ("", "return torch.var_mean(x, dim=(2, 3), keepdim=True)", "randn(16, 64, 56, 56)"),
    "median": ("", "torch.median(x, dim=1)[0]", "randn(256, 999)"),
    "rolled": ("", "torch.roll(x, shifts=(1, -2), dims=(1, 2))", "randn(16, 64, 100)"),
    "unfolded": ("", "x.unfold(2, 5, 3).mean(-1)", "randn(16, 32, 200)"),
    # windows
    "conv1d_dilated": (
        "self.c = nn.Conv1d(32, 64, 3, stride=3, dilation=4)",
        "self.c(x)",
        "randn(16, 32, 1000)",
    ),
    "conv_depthwise_1d": (
        "self.c = nn.Conv1d(64, 64, 4, groups=64, padding=3)",
        "self.c(x)[..., :-3]",
        "randn(8, 64, 512)",
    ),
    "conv2d_same": ("self.c = nn.Conv2d(16, 32, 5, padding='same')", "self.c(x)", "randn(8, 16, 50, 70)"),
    "conv2d_reflected": (
        "self.c = nn.Conv2d(3, 16, 7, padding=3, padding_mode='reflect')",
        "self.c(x)",
        "rand(8, 3, 64, 64)",
    ),
    "conv2d_asymmetric": (
        "self.c = nn.Conv2d(32, 64, (5, 7), stride=(2, 3), padding=(2, 4), dilation=(2, 3))",
        "self.c(x)",
        "randn(8, 32, 128, 256)",
    ),
    "conv3d_grouped": ("self.c = nn.Conv3d(16, 32, 3, groups=4)", "self.c(x)", "randn(4, 16, 12, 24, 24)"),
    "transposed_1d": (
        "self.c = nn.ConvTranspose1d(64, 32, 5, stride=2, padding=1, output_padding=1)",
        "self.c(x)",
        "randn(8, 64, 300)",
    ),
    "transposed_grouped": (
        "self.c = nn.ConvTranspose3d(32, 32, (3, 5, 7), stride=(2, 2, 2), padding=(1, 2, 3), "
        "output_padding=1, groups=4)",
        "self.c(x)",
        "randn(4, 32, 12, 24, 36)",
    ),
    "max_pool_ceil": (
        "self.p = nn.MaxPool2d(3, stride=2, ceil_mode=True)",
        "self.p(x)",
        "randn(8, 32, 111, 113)",
    ),
    "max_pool_indices": (
        "self.p = nn.MaxPool2d(2, return_indices=True)",
        "return self.p(x)",
        "randn(8, 32, 56, 56)",
    ),
    "lp_pool": ("", "F.lp_pool2d(x, 2.0, 3, stride=2)", "rand(8, 32, 56, 56)"),
    "avg_pool1d": ("self.p = nn.AvgPool1d(8, stride=1, padding=4)", "self.p(x)", "randn(16, 64, 4096)"),
    "adaptive_avg": ("self.p = nn.AdaptiveAvgPool2d((7, 5))", "self.p(x)", "randn(8, 64, 56, 40)"),
    "adaptive_max": ("self.p = nn.AdaptiveMaxPool1d(16)", "self.p(x)", "randn(8, 64, 512)"),
    "adaptive_3d": (
        "self.p = nn.AdaptiveAvgPool3d((1, 1, 1))",
        "self.p(x).flatten(1)",
        "randn(8, 32, 8, 28, 28)",
    ),
    "upsampled": (
        "self.u = nn.Upsample(scale_factor=2, mode='bilinear', align_corners=True)",
        "self.u(x)",
        "randn(4, 16, 32, 48)",
    ),
    "interpolated": ("", "F.interpolate(x, scale_factor=0.5, mode='nearest')", "randn(4, 16, 64, 48)"),
    "interpolated_to_size": ("", "F.interpolate(x, size=(32, 24), mode='area')", "randn(4, 16, 64, 48)"),
    "pixel_shuffled": ("", "F.pixel_shuffle(x, 4)", "randn(4, 48, 32, 32)"),
    "image_to_columns": ("", "F.unfold(x, 3, padding=1, stride=2)", "randn(4, 16, 64, 64)"),
    "columns_to_image": ("", "F.fold(x, (64, 64), 4, stride=4)", "randn(4, 128, 256)"),
    "grid_sampled": (
        "",
        "F.grid_sample(x, y, align_corners=False)",
        "rand(4, 8, 32, 32), rand(4, 24, 24, 2)",
    ),
    "padded": ("", "F.pad(x, (1, 2, 3, 4), mode='replicate')", "randn(4, 16, 30, 40)"),
    "max_unpooled": (
        "self.p = nn.MaxPool2d(2, return_indices=True)\nself.u = nn.MaxUnpool2d(2)",
        "v, i = self.p(x)\nreturn self.u(v, i)",
        "randn(4, 8, 32, 32)",
    ),
    "local_response": ("self.n = nn.LocalResponseNorm(5)", "self.n(x)", "rand(8, 64, 32, 32)"),
    # normalizations
    "batch_norm_trained": ("self.n = nn.BatchNorm3d(16)", "self.n(x)", "randn(4, 16, 8, 16, 16)"),
    "batch_norm_no_affine": (
        "self.n = nn.BatchNorm1d(256, affine=False, track_running_stats=False)",
        "self.n(x)",
        "randn(512, 256)",
    ),
    "instance_norm_affine": (
        "self.n = nn.InstanceNorm2d(64, affine=True)",
        "self.n(x)",
        "randn(8, 64, 56, 56)",
    ),
    "layer_norm_of_3": ("self.n = nn.LayerNorm((16, 32, 32))", "self.n(x)", "randn(8, 16, 32, 32)"),
    "rms_norm": ("self.n = nn.RMSNorm(512)", "self.n(x)", "randn(8, 128, 512)"),
    "weight_normed": (
        "self.l = torch.nn.utils.weight_norm(nn.Linear(64, 128))",
        "self.l(x)",
        "randn(256, 64)",
    ),
    "spectral_normed": (
        "self.l = nn.utils.parametrizations.spectral_norm(nn.Linear(64, 96)).eval()",
        "self.l(x)",
        "randn(256, 64)",
    ),
    "cosine": ("", "F.cosine_similarity(x, y, dim=1)", "randn(256, 512), randn(256, 512)"),
    "pairwise": ("", "torch.cdist(x, y)", "randn(8, 128, 64), randn(8, 96, 64)"),
    # losses
    "cross_entropy_smooth": (
        "self.l = nn.CrossEntropyLoss(label_smoothing=0.1)",
        "self.l(x, y)",
        "randn(256, 1000), randint(0, 1000, (256,))",
    ),
    "cross_entropy_weighted": (
        "self.l = nn.CrossEntropyLoss(weight=rand(21))",
        "self.l(x, y)",
        "randn(4, 21, 32, 32), randint(0, 21, (4, 32, 32))",
    ),
    "nll_2d": ("", "F.nll_loss(F.log_softmax(x, 1), y)", "randn(8, 10, 24, 24), randint(0, 10, (8, 24, 24))"),
    "hinge": (
        "",
        "torch.mean(torch.clamp(1 - x * y, min=0))",
        "randn(2048, 100), randint(0, 2, (2048, 1)).float() * 2 - 1",
    ),
    "smooth_l1": ("", "F.smooth_l1_loss(x, y, beta=0.5)", "randn(1024, 100), randn(1024, 100)"),
    "kl_of_logs": (
        "",
        "F.kl_div(torch.log(x), y, reduction='batchmean')",
        "rand(256, 500).softmax(-1), rand(256, 500).softmax(-1)",
    ),
    "bce_logits": (
        "self.l = nn.BCEWithLogitsLoss(pos_weight=rand(100))",
        "self.l(x, y)",
        "randn(512, 100), rand(512, 100)",
    ),
    "margin_ranking": (
        "",
        "F.margin_ranking_loss(x, y, z, margin=0.3)",
        "randn(1000), randn(1000), randint(0, 2, (1000,)) * 2 - 1.0",
    ),
    "cosine_embedding": (
        "",
        "F.cosine_embedding_loss(x, y, z)",
        "randn(256, 64), randn(256, 64), randint(0, 2, (256,)) * 2 - 1",
    ),
    "multi_margin": ("", "F.multi_margin_loss(x, y)", "randn(256, 40), randint(0, 40, (256,))"),
    "poisson": ("", "F.poisson_nll_loss(x, y)", "randn(512, 64), randint(0, 9, (512, 64)).float()"),
    "triplet": (
        "self.l = nn.TripletMarginLoss(margin=1.0, p=2)",
        "self.l(x, y, z)",
        "rand(256, 512), rand(256, 512), rand(256, 512)",
    ),
    # look-ups, masks, integers, truth values
    "embedded": (
        "self.e = nn.Embedding(5000, 128, padding_idx=0)",
        "self.e(x).mean(1)",
        "randint(0, 5000, (64, 40))",
    ),
    "embedding_bag": (
        "self.e = nn.EmbeddingBag(5000, 64, mode='sum')",
        "self.e(x)",
        "randint(0, 5000, (128, 20))",
    ),
    "one_hot": ("", "F.one_hot(x, 100).float()", "randint(0, 100, (64, 32))"),
    "gathered": ("", "torch.gather(x, 1, y)", "randn(256, 500), randint(0, 500, (256, 40))"),
    "scattered": (
        "",
        "torch.zeros_like(x).scatter_add(1, y, x)",
        "randn(256, 100), randint(0, 100, (256, 100))",
    ),
    "index_added": (
        "",
        "torch.zeros(50, x.shape[1]).index_add(0, y, x)",
        "randn(500, 64), randint(0, 50, (500,))",
    ),
    "taken": ("self.register_buffer('order', torch.randperm(64))", "x[:, self.order]", "randn(256, 64)"),
    "masked_fill": ("", "x.masked_fill(y, float('-inf')).softmax(-1)", "randn(64, 200), rand(64, 200) > 0.7"),
    "masked_mean": (
        "",
        "(x * y).sum(1) / y.sum(1).clamp(min=1)",
        "randn(64, 100, 32), rand(64, 100, 1) > 0.5",
    ),
    "causal_buffer": (
        "self.register_buffer('mask', torch.tril(torch.ones(128, 128)).bool())",
        "x.masked_fill(~self.mask[: x.shape[1], : x.shape[1]], 0.0)",
        "randn(16, 128, 128)",
    ),
    "mask_made_inside": (
        "",
        "torch.where(torch.ones(x.shape[-1], x.shape[-1]).triu(1).bool(), -1e9, x)",
        "randn(16, 96, 96)",
    ),
    "constant_attribute": (
        "self.scale = torch.tensor(0.37)\nself.table = torch.linspace(0, 1, 64)",
        "x * self.scale + self.table",
        "randn(128, 64)",
    ),
    "bits": ("", "(x >> 2) & 0x0F", "randint(0, 255, (512, 100))"),
    "quantized": ("", "torch.clamp(torch.round(x / 0.1), -128, 127).to(torch.int8)", "randn(512, 300)"),
    "bucketed": (
        "self.register_buffer('edges', torch.linspace(-3, 3, 32))",
        "torch.bucketize(x, self.edges)",
        "randn(64, 500)",
    ),
    "counted": ("", "(x > 0).sum(1)", "randn(256, 700)"),
    "scalar_inputs": ("", "x * y + z", "randn(512, 600), 2.5, 3"),
    "flag_input": ("", "return x.relu() if y else x.tanh()", "randn(512, 600), True"),
    # activations and gates
    "glu": ("", "F.glu(x, dim=-1)", "randn(256, 512)"),
    "prelu": ("self.a = nn.PReLU(64)", "self.a(x)", "randn(8, 64, 28, 28)"),
    "maxout": (
        "self.l = nn.Linear(64, 4 * 48)",
        "self.l(x).view(x.shape[0], 48, 4).max(-1)[0]",
        "randn(256, 64)",
    ),
    "gumbel_free": ("", "F.softmin(x, dim=0)", "randn(300, 400)"),
    "threshold": ("", "F.threshold(x, 0.1, 20.0) + F.hardshrink(x) + F.celu(x)", "randn(512, 500)"),
    "dropout_evaluated": ("self.d = nn.Dropout(0.5).eval()", "self.d(x).exp()", "randn(512, 500)"),
    "dropout_of_zero": ("self.d = nn.Dropout(p=0.0)", "self.d(x).exp()", "randn(512, 500)"),
    "new_gelu": (
        "",
        "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))",
        "rand(1000, 1500)",
    ),
    # blocks
    "attention_module": (
        "self.a = nn.MultiheadAttention(64, 4, batch_first=True)",
        "self.a(x, x, x, need_weights=False)[0]",
        "randn(4, 100, 64)",
    ),
    "attention_masked": (
        "self.scale = 64**-0.5",
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        "randn(4, 8, 128, 64), randn(4, 8, 128, 64), randn(4, 8, 128, 64)",
    ),
    "encoder_layer": (
        "self.e = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)",
        "self.e(x)",
        "randn(8, 50, 64)",
    ),
    "list_of_modules": (
        "self.m = nn.ModuleList([nn.Linear(64, 64) for _ in range(5)])\n"
        "self.d = nn.ModuleDict({'a': nn.Linear(64, 9)})",
        "for layer in self.m:\n    x = x + torch.tanh(layer(x))\nreturn self.d['a'](x)",
        "randn(128, 64)",
    ),
    "list_of_parameters": (
        "self.p = nn.ParameterList([nn.Parameter(randn(32)) for _ in range(3)])",
        "return tuple(x * p for p in self.p)",
        "randn(128, 32)",
    ),
    "patches": (
        "self.c = nn.Conv2d(3, 96, 16, stride=16)\nself.cls = nn.Parameter(torch.zeros(1, 1, 96))\n"
        "self.pos = nn.Parameter(randn(1, 197, 96))",
        "t = self.c(x).flatten(2).transpose(1, 2)\n"
        "return torch.cat((self.cls.expand(x.shape[0], -1, -1), t), 1) + self.pos",
        "randn(8, 3, 224, 224)",
    ),
    "patches_by_view": (
        "self.p = 16\nself.l = nn.Linear(3 * 16 * 16, 128)",
        "b, c, h, w = x.shape\np = self.p\n"
        "t = x.unfold(2, p, p).unfold(3, p, p).reshape(b, -1, p * p * c)\nreturn self.l(t)",
        "randn(2, 3, 224, 224)",
    ),
    "gru_cell_loop": (
        "self.c = nn.GRUCell(16, 32)",
        "h = torch.zeros(x.shape[0], 32)\nfor t in range(x.shape[1]):\n    h = self.c(x[:, t], h)\nreturn h",
        "randn(8, 24, 16)",
    ),
    "lstm_both_ways": (
        "self.r = nn.LSTM(32, 48, 2, bidirectional=True, batch_first=True)\nself.o = nn.Linear(96, 10)",
        "self.o(self.r(x)[0][:, -1])",
        "randn(8, 40, 32)",
    ),
    "rnn_plain": (
        "self.r = nn.RNN(32, 64, nonlinearity='relu')",
        "return self.r(x, y)",
        "randn(30, 8, 32), randn(1, 8, 64)",
    ),
    "squeezed": ("self.l = nn.Linear(64, 1)", "self.l(x).squeeze()", "randn(256, 64)"),
    "complex_inside": (
        "",
        "torch.fft.irfft(torch.fft.rfft(x, dim=-1), n=x.shape[-1], dim=-1)",
        "randn(64, 256)",
    ),
    "solved": (
        "",
        "torch.linalg.solve(x @ x.mT + 3 * torch.eye(x.shape[-1]), y)",
        "randn(8, 32, 32), randn(8, 32, 4)",
    ),
}


def source_of(name: str) -> str:
    """The task file of a kind."""
    init, body, inputs = KINDS[name]
    if "return" not in body:
        body = f"return {body}"
    count = _arguments(inputs)
    lines = [
        HEAD,
        "\nclass Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        *(f"        {line}" for line in init.splitlines()),
        f"    def forward(self, {', '.join('xyz'[:count])}):",
        *(f"        {line}" for line in body.splitlines()),
        f"\ndef get_inputs():\n    return [{inputs}]",
        "\ndef get_init_inputs():\n    return []",
    ]
    return "\n".join(lines) + "\n"


def _arguments(inputs: str) -> int:
    """How many expressions a list of them has."""
    parsed = ast.parse(f"[{inputs}]", mode="eval").body
    assert isinstance(parsed, ast.List)
    return len(parsed.elts)
