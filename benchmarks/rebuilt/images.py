"""Networks for images, by kind: widths and depths are read from the facts."""

from rebuilt.facts import Problem, Shape
from rebuilt.text import convolutions, network_file

INCEPTION = """
class Inception(nn.Module):
    def __init__(self, inputs, one, reduce3, three, reduce5, five, pooled):
        super().__init__()
        self.branch1 = nn.Conv2d(inputs, one, 1)
        self.branch3 = nn.Sequential(nn.Conv2d(inputs, reduce3, 1), nn.Conv2d(reduce3, three, 3, padding=1))
        self.branch5 = nn.Sequential(nn.Conv2d(inputs, reduce5, 1), nn.Conv2d(reduce5, five, 5, padding=2))
        self.branch_pool = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inputs, pooled, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch3(x), self.branch5(x), self.branch_pool(x)], 1)


class Model(nn.Module):
    def __init__(self, stages, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(64, 64, 1)
        self.conv3 = nn.Conv2d(64, 192, 3, padding=1)
        self.stages = nn.ModuleList(nn.ModuleList(Inception(*widths) for widths in stage) for stage in stages)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(sum(stages[-1][-1][i] for i in (1, 3, 5, 6)), classes)
        # end

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = self.pool(F.relu(self.conv3(x)))
        for place, stage in enumerate(self.stages):
            x = x if place == 0 else self.pool(x)
            for block in stage:
                x = block(x)
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(self.dropout(x))
"""


def inception(problem: Problem, training: bool) -> str:
    """Every concatenation is a block; its reductions are the convolutions that lead to its branches."""
    left = {id(ran): ran.times for ran in convolutions(problem)}

    def reduced(inputs: Shape, taps: int, width: int) -> int:
        """The input channels of the convolution with so many taps that makes `width` of them."""
        for ran in convolutions(problem):
            weight = ran.tensors[1]
            to = [r for r in convolutions(problem) if r.tensors[1][:2] == (weight[1], inputs[1])]
            if weight[0] == width and weight[2] == taps and ran.operand[2:] == inputs[2:]:
                first = next((r for r in to if r.operand == inputs and left[id(r)]), None)
                if first is not None and left[id(ran)]:
                    left[id(ran)] -= 1
                    left[id(first)] -= 1
                    return int(weight[1])
        raise AssertionError((inputs, taps, width))

    stages: list[list[tuple[int, ...]]] = []
    channels, extent = 192, 0
    for ran in problem.operators:
        if ran.name != "cat":
            continue
        one, three, five, pooled = (part[1] for part in ran.arguments[0])
        if ran.output[2] != extent:
            stages.append([])
        extent = ran.output[2]
        at = (ran.output[0], channels, extent, extent)
        stages[-1].append((channels, one, reduced(at, 3, three), three, reduced(at, 5, five), five, pooled))
        channels = ran.output[1]
    classes = problem.operators[-1].output[1]
    return network_file(problem, INCEPTION, {"stages": stages, "classes": classes}, training)


RESIDUAL = """
class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class Model(nn.Module):
    def __init__(self, widths, depths, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        layers, inputs = [], widths[0]
        for place, (width, depth) in enumerate(zip(widths, depths)):
            for block in range(depth):
                layers.append(Block(inputs, width, 2 if place and block == 0 else 1))
                inputs = width
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, classes)
        # end

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))
"""


def residual(problem: Problem, training: bool) -> str:
    """Every sum is a block."""
    sums = {ran.output[1]: ran.times for ran in problem.operators if ran.operator == "add_.Tensor"}
    classes = problem.operators[-1].output[1]
    constants = {"widths": list(sums), "depths": list(sums.values()), "classes": classes}
    return network_file(problem, RESIDUAL, constants, training)


DENSE = """
class Layer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.layer = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, growth, 3, padding=1, bias=False),
            nn.Dropout(0.0),
        )

    def forward(self, x):
        return self.layer(x)


class Block(nn.Module):
    def __init__(self, inputs, growth, depth):
        super().__init__()
        self.layers = nn.ModuleList(Layer(inputs + i * growth, growth) for i in range(depth))

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(x))
            x = torch.cat(features, 1)
        return x


class Transition(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.transition = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.AvgPool2d(2, 2),
        )

    def forward(self, x):
        return self.transition(x)


class Model(nn.Module):
    def __init__(self, depths, growth, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        width = 64
        for place, depth in enumerate(depths):
            self.blocks.append(Block(width, growth, depth))
            width += depth * growth
            if place + 1 < len(depths):
                self.transitions.append(Transition(width, width // 2))
                width //= 2
        self.final_bn = nn.BatchNorm2d(width)
        self.classifier = nn.Linear(width, classes)
        # end

    def forward(self, x):
        x = self.features(x)
        for place, block in enumerate(self.blocks):
            x = block(x)
            if place < len(self.transitions):
                x = self.transitions[place](x)
        x = F.relu(self.final_bn(x), inplace=True)
        x = F.adaptive_avg_pool2d(x, (1, 1)).view(x.size(0), -1)
        return self.classifier(x)
"""


def dense(problem: Problem, training: bool) -> str:
    """Concatenations at one extent are one block."""
    cats = [ran for ran in problem.operators if ran.name == "cat"]
    depths: dict[int, int] = {}
    for ran in cats:
        depths[ran.output[2]] = depths.get(ran.output[2], 0) + 1
    growth = cats[0].arguments[0][-1][1]
    constants = {"depths": [*depths.values()], "growth": growth, "classes": problem.operators[-1].output[1]}
    return network_file(problem, DENSE, constants, training)


FIRE = """
class Model(nn.Module):
    def __init__(self, inputs, squeezed, expanded1, expanded3):
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1 = nn.Conv2d(squeezed, expanded1, 1)
        self.expand1_activation = nn.ReLU(inplace=True)
        self.expand3 = nn.Conv2d(squeezed, expanded3, 3, padding=1)
        self.expand3_activation = nn.ReLU(inplace=True)
        # end

    def forward(self, x):
        x = self.squeeze_activation(self.squeeze(x))
        left = self.expand1_activation(self.expand1(x))
        return torch.cat([left, self.expand3_activation(self.expand3(x))], 1)
"""


def fire(problem: Problem, training: bool) -> str:
    widths = [ran.tensors[1][0] for ran in convolutions(problem)]
    names = ("squeeze_channels", "expand1x1_channels", "expand3x3_channels")
    constants = {"num_input_features": problem.inputs[0][1]} | dict(zip(names, widths, strict=True))
    return network_file(problem, FIRE, constants, training)


SHUFFLE = """
class ChannelShuffle(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        batch_size, channels, height, width = x.size()
        x = x.view(batch_size, self.groups, channels // self.groups, height, width)
        return x.transpose(1, 2).contiguous().view(batch_size, -1, height, width)


class Model(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        middle = outputs // 4
        self.conv1 = nn.Conv2d(inputs, middle, 1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, 3, padding=1, groups=middle, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, outputs, 1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shuffle = ChannelShuffle(groups)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        # end

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.shuffle(self.bn2(self.conv2(out)))
        out = F.relu(self.bn3(self.conv3(out)))
        out += self.shortcut(x)
        return out
"""


def shuffle(problem: Problem, training: bool) -> str:
    first = convolutions(problem)[0]
    outputs = convolutions(problem)[-1].output[1]
    constants = {"inputs": first.operand[1], "outputs": outputs, "groups": first.arguments[-1]}
    return network_file(problem, SHUFFLE, constants, training)


UNET = """
class Double(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.Softmax(dim=-1),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.Softmax(dim=-1),
        )

    def forward(self, x):
        return self.double_conv(x)


class Model(nn.Module):
    def __init__(self, in_channels, out_channels, features, steps):
        super().__init__()
        widths = [features * 2**i for i in range(steps + 1)]
        self.encoders = nn.ModuleList(Double(a, b) for a, b in zip([in_channels, *widths], widths))
        self.pool = nn.MaxPool2d(2, 2)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[-2::-1])
        self.decoders = nn.ModuleList(Double(2 * w, w) for w in widths[-2::-1])
        self.final = nn.Conv2d(features, out_channels, 1)
        # end

    def forward(self, x):
        skips = []
        for encoder in self.encoders[:-1]:
            x = encoder(x)
            skips.append(x)
            x = self.pool(x)
        x = self.encoders[-1](x)
        for up, decoder in zip(self.ups, self.decoders):
            x = decoder(torch.cat((up(x), skips.pop()), dim=1))
        return self.final(x)
"""


def unet(problem: Problem, training: bool) -> str:
    found = convolutions(problem)
    constants = {
        "in_channels": problem.inputs[0][1],
        "out_channels": found[-1].output[1],
        "features": found[0].output[1],
        "steps": sum(ran.arguments[6] for ran in found),
    }
    return network_file(problem, UNET, constants, training)
