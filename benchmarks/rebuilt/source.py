"""The text of a task file, put together from its constants, layers and statements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclass
class Source:
    """Collects the parts of a task file in KernelBench's format. With `literals`, sizes are written where
    they are used; otherwise they are module-level constants, handed to the constructor, as that suite does.
    `training` leaves the module in training mode."""

    literals: bool = False
    training: bool = False
    constants: dict[str, Any] = field(default_factory=dict)
    init: list[str] = field(default_factory=list)
    forward: list[str] = field(default_factory=list)
    inputs: list[tuple[str, str]] = field(default_factory=list)
    _used: dict[str, None] = field(default_factory=dict)
    _layers: dict[str, int] = field(default_factory=dict)

    def size(self, name: str, value: int) -> str:
        """The words for a size in the constructor: the constant of this name, numbered if it has another
        value already; the number itself among literals, or if it is 0 or 1."""
        constant = self.constant(name, value)
        if constant != str(value):
            self._used[constant] = None
        return constant

    def constant(self, name: str, value: int) -> str:
        """The same for get_inputs()."""
        if self.literals or value in (0, 1):
            return str(value)
        number = 1
        chosen = name
        while self.constants.get(chosen, value) != value:
            number += 1
            chosen = f"{name}_{number}"
        self.constants[chosen] = value
        return chosen

    def layer(self, kind: str, words: str) -> str:
        """Adds a layer; how forward() names it."""
        number = self._layers.setdefault(kind, 0)
        self._layers[kind] += 1
        name = f"self.{kind}{number or ''}"
        self.init.append(f"{name} = {words}")
        return name

    def parameter(self, shape: Sequence[str]) -> str:
        words = f"torch.randn({', '.join(shape)})" if shape else "torch.tensor(0.5)"
        return self.layer("weight", f"nn.Parameter({words})")

    def text(self) -> str:
        """The whole file."""
        constants = [f"{name} = {value!r}" for name, value in self.constants.items()]
        taken = ", ".join(["self", *self._used])
        init = [*self.init, *([] if self.training else ["self.eval()"])]
        arguments = ", ".join(name for name, _ in self.inputs)
        lines = [
            HEAD,
            *constants,
            "\n\nclass Model(nn.Module):",
            f"    def __init__({taken}):",
            "        super().__init__()",
            *(f"        {line}" for line in init),
            "",
            f"    def forward(self, {arguments}):",
            *(f"        {line}" for line in self.forward),
            "\n\ndef get_inputs():",
            f"    return [{', '.join(made for _, made in self.inputs)}]",
            "\n\ndef get_init_inputs():",
            f"    return [{', '.join(self._used)}]",
        ]
        return "\n".join(lines) + "\n"
