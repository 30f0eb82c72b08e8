"""Modules in which one operator follows another: single operators, fused ones, plain networks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rebuilt.facts import Problem, Ran, Shape
from rebuilt.source import Source

SPATIAL = {3: ("length",), 4: ("height", "width"), 5: ("depth", "height", "width")}
GATES = ("sigmoid", "clamp", "tanh")  # what a value is multiplied with, if made of the value itself
NAMES = {1: ["batch_size"], 2: ["batch_size", "features"]}


@dataclass
class Chain:
    """A module as it grows. `value` is the name of the running value, `shape` its shape, `before` all earlier
    ones with their shapes and operators, oldest first."""

    source: Source
    shape: Shape
    value: str
    inputs: dict[str, Shape]
    before: list[tuple[str, Shape, str]] = field(default_factory=list)
    channels: str = ""

    def step(self, words: str, shape: Shape, operator: str) -> None:
        """Adds a statement whose result becomes the running value."""
        self.before.append((self.value, self.shape, operator))
        self.value = f"v{len(self.before)}"
        self.source.forward.append(f"{self.value} = {words}")
        self.shape = shape

    def channel_words(self, count: int) -> str:
        """The words for a channel count: those of the running value's, if it has as many."""
        known = self.channels and not self.source.literals and self.source.constants[self.channels] == count
        return self.source.size(self.channels if known else "out_features", count)


def chain_source(problem: Problem, source: Source) -> str:
    """The file of a problem whose operators follow one another."""
    names = [chr(ord("x") + i) if len(problem.inputs) < 4 else f"x{i}" for i in range(len(problem.inputs))]
    shapes = dict(zip(names, problem.inputs, strict=True))
    integer = any(ran.name == "nll_loss_forward" for ran in problem.operators)
    for place, (name, shape) in enumerate(shapes.items()):
        source.inputs.append((name, _input_words(problem, source, shape, place, integer)))
    chain = Chain(source, problem.inputs[0], names[0], shapes)
    if len(chain.shape) > 2:
        chain.channels = "" if source.literals else source.size("in_channels", chain.shape[1])
    for ran in _in_order(problem):
        EMITTERS[ran.name](chain, ran)
    source.forward.append(f"return {chain.value}")
    return source.text()


def _input_words(problem: Problem, source: Source, shape: Shape | float, place: int, integer: bool) -> str:
    """How get_inputs() makes one input."""
    if not isinstance(shape, tuple):
        return repr(shape)
    names = NAMES.get(len(shape), ["batch_size", "in_channels", *SPATIAL.get(len(shape), ())])
    first = place == 0 or len(shape) != len(problem.inputs[0])
    words = ", ".join(
        source.constant(name if first or shape[i] == problem.inputs[0][i] else f"{name}_{place}", extent)
        for i, (name, extent) in enumerate(zip(names, shape, strict=True))
    )
    if place == 1 and integer:
        classes = source.constant("features", problem.inputs[0][-1])
        return f"torch.randint(0, {classes}, ({words},))"
    if place == 1 and _is_mask(problem):
        return f"torch.randint(0, 2, ({words},)).bool()"
    return f"torch.rand({words})"


def _is_mask(problem: Problem) -> bool:
    """Whether the bytes say that the second of two inputs of one shape is a tensor of truth values."""
    shapes = [shape for shape in problem.inputs if isinstance(shape, tuple)]
    count = 1
    for extent in shapes[0]:
        count *= extent
    return len(shapes) == 2 and shapes[0] == shapes[1] and abs(problem.megabytes - count * 9e-6) < 1


def _in_order(problem: Problem) -> Iterator[Ran]:
    """Operators in an order in which each can follow the one before. Single and fused operators come as they
    are listed; of a network's, which are listed where they came first, the one follows that runs most often
    still."""
    left = [[ran, ran.times] for ran in problem.operators]
    if problem.level < 3:
        turned = [ran for ran in problem.operators if ran.name == "flip"]  # before and after a scan
        yield from turned
        for ran in problem.operators:
            yield from [ran] * (0 if ran in turned else ran.times)
        yield from turned
        return
    shape = problem.inputs[0]
    while any(times for _, times in left):
        fitting = [one for one in left if one[1] and _fits(one[0], shape)]
        fused = [one for one in fitting if one[0].name in LAYERED]
        chosen = fused[0] if fused else max(fitting, key=lambda one: one[1])
        chosen[1] -= 1
        shape = chosen[0].output
        yield chosen[0]


def _fits(ran: Ran, shape: Shape) -> bool:
    flat = 1
    for extent in shape[1:]:
        flat *= extent
    return ran.operand in (shape, (shape[0], flat))


LAYERED = ("native_batch_norm", "relu", "hardtanh", "gelu")  # belong to the layer before them
Emitter = Callable[[Chain, Ran], None]
EMITTERS: dict[str, Emitter] = {}


def emits(*names: str) -> Callable[[Emitter], Emitter]:
    def register(emitter: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(names, emitter))
        return emitter

    return register


@emits("convolution")
def _convolution(chain: Chain, ran: Ran) -> None:
    _, weight, bias, stride, padding, dilation, transposed, more, groups = ran.arguments
    count = len(weight) - 2
    outputs = weight[1] * groups if transposed else weight[0]
    inputs = chain.channel_words(ran.operand[1])
    made = chain.source.size("out_channels", outputs)
    taps = chain.source.size("kernel_size", weight[2]) if len(set(weight[2:])) == 1 else str(weight[2:])
    parts = [inputs, made, taps]
    for name, given, default in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if set(given) != {default}:
            parts.append(f"{name}={given[0] if len(set(given)) == 1 else given}")
    if transposed and set(more) != {0}:
        parts.append(f"output_padding={more[0]}")
    if groups != 1:
        parts.append(f"groups={inputs if groups == ran.operand[1] else groups}")
    if bias is None:
        parts.append("bias=False")
    kind = "ConvTranspose" if transposed else "Conv"
    layer = chain.source.layer("conv", f"nn.{kind}{count}d({', '.join(parts)})")
    chain.channels = "" if chain.source.literals or outputs == 1 else made
    chain.step(f"{layer}({chain.value})", ran.output, ran.name)


@emits("addmm")
def _linear(chain: Chain, ran: Ran) -> None:
    weight = ran.tensors[2]
    if len(chain.shape) > 2:
        chain.step(f"{chain.value}.flatten(1)", ran.operand, "flatten")
    name = "features" if chain.shape == next(iter(chain.inputs.values())) else "out_features"
    inputs = chain.source.size(name, weight[0])
    outputs = chain.source.size("out_features", weight[1])
    layer = chain.source.layer("linear", f"nn.Linear({inputs}, {outputs})")
    chain.step(f"{layer}({chain.value})", ran.output, ran.name)


@emits("native_batch_norm")
def _batch_norm(chain: Chain, ran: Ran) -> None:
    rank = max(len(chain.shape) - 2, 1)
    channels = chain.channel_words(chain.shape[1])
    kind = "InstanceNorm" if ran.arguments[1] is None else "BatchNorm"
    layer = chain.source.layer("norm", f"nn.{kind}{rank}d({channels})")
    chain.step(f"{layer}({chain.value})", chain.shape, ran.name)


@emits("native_group_norm")
def _group_norm(chain: Chain, ran: Ran) -> None:
    groups = chain.source.size("num_groups", ran.arguments[6])
    layer = chain.source.layer("norm", f"nn.GroupNorm({groups}, {chain.channel_words(chain.shape[1])})")
    chain.step(f"{layer}({chain.value})", chain.shape, ran.name)


@emits("native_layer_norm")
def _layer_norm(chain: Chain, ran: Ran) -> None:
    shape = ", ".join(chain.channel_words(extent) for extent in ran.arguments[1])
    layer = chain.source.layer("norm", f"nn.LayerNorm(({shape},))")
    chain.step(f"{layer}({chain.value})", chain.shape, ran.name)


@emits("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d")
def _pool(chain: Chain, ran: Ran) -> None:
    kind = "Max" if ran.name.startswith("max") else "Avg"
    rank = len(ran.operand) - 2
    given = [a for a in ran.arguments[1:] if isinstance(a, tuple)]
    if rank == 2 and ran.operand[2] == 1 and len(chain.shape) < 4:  # of one dimension
        given, rank = [a[1:] for a in given], 1
    names = ("kernel_size", "stride", "padding", "dilation")
    words = ", ".join(
        f"{name}={a[0] if len(set(a)) == 1 else a}" for name, a in zip(names, given, strict=False)
    )
    layer = chain.source.layer("pool", f"nn.{kind}Pool{rank}d({words})")
    inner = f"{chain.value}.unsqueeze(1)" if len(chain.shape) == 2 else chain.value
    after = ".squeeze(1)" if len(chain.shape) == 2 else ""
    output = ran.output[-1:] if rank == 1 else ran.output[2:]
    chain.step(f"{layer}({inner}){after}", (*chain.shape[: -rank or None], *output), ran.name)


FUNCTIONS = {
    **dict.fromkeys(("relu", "sigmoid", "softmax", "log_softmax"), "torch"),
    **dict.fromkeys(("gelu", "mish", "hardswish", "softplus", "leaky_relu", "elu", "hardtanh"), "F"),
}


@emits("relu", "sigmoid", "gelu", "mish", "hardswish", "softplus", "leaky_relu")
def _activation(chain: Chain, ran: Ran) -> None:
    in_place = ran.operator.startswith("relu_")
    home = FUNCTIONS[ran.name]
    words = f"F.relu({chain.value}, inplace=True)" if in_place else f"{home}.{ran.name}({chain.value})"
    chain.step(words, chain.shape, ran.name)


@emits("elu")
def _elu(chain: Chain, ran: Ran) -> None:
    scaled = len(ran.arguments) > 2
    chain.step(f"F.{'selu' if scaled else 'elu'}({chain.value})", chain.shape, ran.name)


@emits("hardtanh")
def _hardtanh(chain: Chain, ran: Ran) -> None:
    words = f"F.hardtanh({', '.join(map(str, (chain.value, *(ran.arguments[1:] or (-1, 1)))))})"
    if ran.arguments[1:] == (0.0, 6.0):
        words = f"F.relu6({chain.value}, inplace=True)"
    chain.step(words, chain.shape, ran.name)


@emits("clamp")
def _clamp(chain: Chain, ran: Ran) -> None:
    low, high = ran.arguments[1:]
    chain.step(f"torch.clamp({chain.value}, {low}, {high})", chain.shape, ran.name)


@emits("softmax", "log_softmax", "cumsum")
def _along(chain: Chain, ran: Ran) -> None:
    chain.step(f"torch.{ran.name}({chain.value}, dim={ran.arguments[1]})", chain.shape, ran.name)


@emits("flip")
def _flip(chain: Chain, ran: Ran) -> None:
    chain.step(f"torch.flip({chain.value}, dims={ran.arguments[1]})", chain.shape, ran.name)


@emits("mean", "sum", "logsumexp")
def _reduction(chain: Chain, ran: Ran) -> None:
    dims, keep = ran.arguments[1], bool(ran.arguments[2:] and ran.arguments[2])
    chain.step(f"torch.{ran.name}({chain.value}, dim={dims}, keepdim={keep})", ran.output, ran.name)


@emits("linalg_vector_norm")
def _norm(chain: Chain, ran: Ran) -> None:
    words = f", p=2, dim={ran.arguments[2][0]}, keepdim=True" if len(ran.arguments) > 1 else ""
    chain.step(f"torch.norm({chain.value}{words})", ran.output, ran.name)


@emits("max", "min")
def _extreme(chain: Chain, ran: Ran) -> None:
    keep = ", keepdim=True" if ran.arguments[2:] else ""
    chain.step(f"torch.{ran.name}({chain.value}, dim={ran.arguments[1]}{keep})[0]", ran.output, ran.name)


@emits("argmax")
def _place(chain: Chain, ran: Ran) -> None:
    chain.step(f"torch.argmax({chain.value}, dim={ran.arguments[1]})", ran.output, ran.name)


@emits("mm", "bmm")
def _product(chain: Chain, ran: Ran) -> None:
    other = list(chain.inputs)[1]
    if len(chain.inputs[other]) != len(chain.shape):
        words = f'torch.einsum("bijl,lk->bijk", {chain.value}, {other})'
    else:
        turned = ran.tensors[1] != chain.inputs[other]
        words = f"torch.matmul({chain.value}, {other}{'.mT' if turned else ''})"
    chain.step(words, ran.output, ran.name)


SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


@emits(*SIGNS)
def _arithmetic(chain: Chain, ran: Ran) -> None:
    one, other = ran.arguments[:2]
    sign = SIGNS[ran.name]
    if not isinstance(other, tuple):
        number = next((name for name, value in chain.inputs.items() if value == other), repr(other))
        chain.step(f"{chain.value} {sign} {number}", ran.output, ran.name)
        return
    left, right = chain.value, ""
    if one != chain.shape:  # of a value with what it was reduced to
        left, right = _earlier(chain, one), chain.value
    elif other == chain.shape and _unused_input(chain, other):
        right = _unused_input(chain, other)
    elif other == chain.shape:
        left, right = _gated(chain), chain.value
    elif any(shape == other and other for _, shape, _ in chain.before):
        right = next(name for name, shape, _ in chain.before if shape == other)
    else:
        right = chain.source.parameter([chain.channel_words(n) if n > 1 else "1" for n in other])
    chain.step(f"{left} {sign} {right}", ran.output, ran.name)


@emits("minimum")
def _minimum(chain: Chain, ran: Ran) -> None:
    made = f"torch.tensor(0.5, device={chain.value}.device)"
    chain.step(f"torch.min({chain.value}, {made})", chain.shape, ran.name)


def _earlier(chain: Chain, shape: Shape) -> str:
    return next(name for name, known, _ in reversed(chain.before) if known == shape)


def _unused_input(chain: Chain, shape: Shape) -> str:
    text = "\n".join(chain.source.forward)
    others = list(chain.inputs.items())[1:]
    return next((name for name, known in others if known == shape and f" {name}" not in text), "")


def _gated(chain: Chain) -> str:
    """The value from which the running one was made by a gate: x in x * sigmoid(x)."""
    for name, _, operator in reversed(chain.before):
        if operator not in (*GATES, "add", "div"):
            break
        found = name
    return found


@emits("nll_loss_forward")
def _negative_log_likelihood(chain: Chain, ran: Ran) -> None:
    chain.step(f"F.nll_loss({chain.value}, {list(chain.inputs)[1]})", (), ran.name)
