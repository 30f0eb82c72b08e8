"""Losses, attention, recurrences and pooling of sequences, by kind: sizes are read from the facts."""

from rebuilt.facts import Problem
from rebuilt.text import network_file

TRIPLET = """
class Model(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)
        # end

    def forward(self, anchor, positive, negative):
        return self.loss(anchor, positive, negative)
"""


def triplet(problem: Problem, training: bool) -> str:
    return network_file(problem, TRIPLET, {"margin": 1.0}, training)


ATTENTION = """
class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
"""


def attention(problem: Problem, training: bool) -> str:
    return network_file(problem, ATTENTION, {}, training)


IMAGE_ATTENTION = """
class Model(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)
        # end

    def forward(self, x):
        B, C, H, W = x.shape
        x = x.view(B, C, H * W).permute(2, 0, 1)
        attended, _ = self.attn(x, x, x)
        x = self.norm(attended + x)
        return x.permute(1, 2, 0).view(B, C, H, W)
"""


def image_attention(problem: Problem, training: bool) -> str:
    batch, channels = problem.inputs[0][:2]
    heads = next(ran for ran in problem.operators if ran.name == "bmm").output[0] // batch
    return network_file(problem, IMAGE_ATTENTION, {"embed_dim": channels, "num_heads": heads}, training)


RECURRENT_CELL = """
class Model(nn.Module):
    def __init__(self, input_size, hidden_size, output_size, batch_size):
        super().__init__()
        self.hidden = torch.randn((batch_size, hidden_size))
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)
        self.tanh = nn.Tanh()
        # end

    def forward(self, x, initial_hidden=None):
        if initial_hidden is not None:
            self.hidden.copy_(initial_hidden)
        self.hidden = self.hidden.to(x.device)
        combined = torch.cat((x, self.hidden), dim=1)
        self.hidden = self.tanh(self.i2h(combined))
        return self.h2o(self.hidden)
"""


def recurrent_cell(problem: Problem, training: bool) -> str:
    batch, inputs = problem.inputs[0]
    outputs = problem.operators[-1].output[1]
    names = ("input_size", "hidden_size", "output_size", "batch_size")
    constants = dict(zip(names, (inputs, problem.inputs[1][1], outputs, batch), strict=True))
    return network_file(problem, RECURRENT_CELL, constants, training)


LSTM = """
class Model(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, output_size):
        super().__init__()
        self.num_layers, self.hidden_size = num_layers, hidden_size
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=0.0)
        self.fc = nn.Linear(hidden_size, output_size)
        # end

    def forward(self, x{state}):
        {begin}out, state = self.lstm(x, (h0, c0))
        out = self.fc(out[:, -1, :])
        return {result}
"""
DRAWN = """h0 = torch.randn(self.num_layers, x.size(0), self.hidden_size)
        c0 = torch.randn(self.num_layers, x.size(0), self.hidden_size)
        """


def lstm(problem: Problem, training: bool) -> str:
    """With an initial state among the inputs, or one that is drawn in every call."""
    layers = [ran for ran in problem.operators if ran.name == "mkldnn_rnn_layer"]
    given = len(problem.inputs) > 1
    body = LSTM.format(
        state=", h0, c0" if given else "", begin="" if given else DRAWN, result="state[1]" if given else "out"
    )
    constants = {
        "input_size": problem.inputs[0][2],
        "hidden_size": layers[0].output[2],
        "num_layers": sum(ran.times for ran in layers),
        "output_size": problem.operators[-1].output[1],
    }
    return network_file(problem, body, constants, training)


GRU = """
class Model(nn.Module):
    def __init__(self, input_size, hidden_size, num_layers, bidirectional):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, num_layers, bidirectional=bidirectional)
        # end

    def forward(self, x, h0):
        output, h_n = self.gru(x, h0)
        return h_n
"""


def gru(problem: Problem, training: bool) -> str:
    both = any(ran.name == "cat" for ran in problem.operators)
    constants = {
        "input_size": problem.inputs[0][2],
        "hidden_size": problem.inputs[1][2],
        "num_layers": problem.inputs[1][0] // (2 if both else 1),
        "bidirectional": both,
    }
    return network_file(problem, GRU, constants, training)


CAUSAL = """
class Model(nn.Module):
    def __init__(self, n_embd, n_head, max_seqlen):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(0.0)
        mask = torch.tril(torch.ones(max_seqlen, max_seqlen))
        self.register_buffer("bias", mask.view(1, 1, max_seqlen, max_seqlen))
        self.n_head, self.n_embd = n_head, n_embd
        # end

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)
"""


def causal(problem: Problem, training: bool) -> str:
    batch, _, width = problem.inputs[0]
    heads = next(ran for ran in problem.operators if ran.name == "bmm").output[0] // batch
    longest = next(ran for ran in problem.operators if ran.name == "eq").output[-1]
    return network_file(problem, CAUSAL, {"n_embd": width, "n_head": heads, "max_seqlen": longest}, training)


VLAD = """
class Model(nn.Module):
    def __init__(self, cluster_size, feature_size):
        super().__init__()
        self.cluster_size, self.feature_size = cluster_size, feature_size
        init = 1 / math.sqrt(feature_size)
        self.clusters = nn.Parameter(init * torch.randn(feature_size, cluster_size))
        self.batch_norm = nn.BatchNorm1d(cluster_size)
        self.clusters2 = nn.Parameter(init * torch.randn(1, feature_size, cluster_size))
        self.out_dim = cluster_size * feature_size
        # end

    def forward(self, x, mask=None):
        max_sample = x.size()[1]
        x = x.view(-1, self.feature_size)
        if x.device != self.clusters.device:
            raise ValueError("input and clusters are on different devices")
        assignment = F.softmax(self.batch_norm(torch.matmul(x, self.clusters)), dim=1)
        assignment = assignment[:, : self.cluster_size].view(-1, max_sample, self.cluster_size)
        a = torch.sum(assignment, dim=1, keepdim=True) * self.clusters2
        x = x.view(-1, max_sample, self.feature_size)
        vlad = torch.matmul(assignment.transpose(1, 2), x).transpose(1, 2) - a
        vlad = F.normalize(vlad).reshape(-1, self.cluster_size * self.feature_size)
        return F.normalize(vlad)
"""


def vlad(problem: Problem, training: bool) -> str:
    clusters = next(ran for ran in problem.operators if ran.name == "mm").output[1]
    constants = {"cluster_size": clusters, "feature_size": problem.inputs[0][2]}
    return network_file(problem, VLAD, constants, training)
