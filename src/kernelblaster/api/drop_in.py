"""Puts a kernel into a module that the user has in memory. The result is a module like the given one, except
that a call runs the kernel if the kernel can do what the call asks, and the given module's code otherwise."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from kernelblaster.api.subjects import Inputs
from kernelblaster.errors import BadTask
from kernelblaster.tasks.torch_programs import WITHOUT_KERNEL, call_of, exported_code, original_of


@dataclass(frozen=True)
class Example:
    """What is kept of a tensor among the example inputs: its shape (`size`), strides, type and device. Its
    values, which may take much memory, are not kept."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Example":
        return cls(tensor.size(), tensor.stride(), tensor.dtype, tensor.device)

    def empty(self) -> torch.Tensor:
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=self.device)


@dataclass(frozen=True)
class GivenModule:
    """A module that the user passed to `optimize` or `compile`, and the example inputs that were passed with
    it: `arguments` are those by position, `named` those by name. In both, an `Example` stands for each
    tensor. `modes` says whether the module, and each of its submodules in the order of `module.modules()`,
    was in training mode."""

    module: torch.nn.Module
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    modes: tuple[bool, ...]

    @classmethod
    def of(cls, module: torch.nn.Module, inputs: Inputs) -> "GivenModule":
        """Returns this description of `module` as it is now. If torch.compile or kb.compile made `module`,
        the module that was compiled is described. `inputs` are the example inputs: a list by position, or a
        dict by name."""
        original = original_of(module)
        arguments, named = pytree.tree_map_only(torch.Tensor, Example.of, call_of(original, inputs))
        return cls(original, arguments, named, _modes(original))


def with_kernel(given: GivenModule, exported: Any) -> torch.nn.Module | None:
    """Returns a module that runs a kernel in place of the given one; its class is derived from the given
    module's class. The two share parameters, buffers, submodules and attributes, and have the same methods
    and the same signature. `exported` is an imported Python file that `OptimizeResult.export` wrote in the
    format `module`; it has the kernel. A call that the kernel cannot do (no GPU, other types or sizes than it
    is for, gradients wanted) runs the given module's own forward(), with a warning that says why, once for
    each reason. Returns None if the number of the kernel's tensor inputs is not the number of tensors among
    the example inputs of `given`."""
    leaves, structure = pytree.tree_flatten((given.arguments, given.named))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Example)]
    known = exported.KERNEL
    if len(places) != len(known.inputs):
        return None

    def call(*values: Any) -> Any:
        filled = list(leaves)
        for at, value in zip(places, values, strict=True):
            filled[at] = value
        return pytree.tree_unflatten(filled, structure)

    original = given.module
    constants = _constants(original, exported, [name for name, _, _ in known.parameters])
    kernel = exported.ExportedKernel(
        source=known.source,
        architecture=known.architecture,
        model=_with_forward(original),
        built_with=[],
        outputs=known.outputs,
        inputs=known.inputs,
        parameters=[(constants.get(name, name), *rest) for name, *rest in known.parameters],
        sizes=known.sizes,
        modes=_same_modes(given),
        most_bytes=known.most_bytes,
        call=call,
    ).build()
    kernel.called_from = (__file__,)
    made = object.__new__(_optimized(original, kernel, exported.OptimizedModel.result_of))
    made.__dict__.update({name: value for name, value in vars(original).items() if name != "forward"})
    if constants:
        made.__dict__["kernel_constants"] = _held(exported.OptimizedModel(), constants)
    return made


def _optimized(original: torch.nn.Module, kernel: Any, result_of: Any) -> type[torch.nn.Module]:
    """A class derived from the original's whose forward() runs the kernel where that is possible."""
    kind = type(original)

    def forward(self: Any, *inputs: Any, **named: Any) -> Any:
        constants = self.__dict__.get("kernel_constants")
        if constants is not None:
            _follow(constants, inputs, named)
        out, reason = kernel.run(self, inputs, named)
        if out is None:
            result = kernel.model.forward(self, *inputs, **named)  # a call that is none ends here
            kernel.say_once(reason)
            return result
        return result_of(out)

    forward.__signature__ = inspect.signature(kernel.model.forward)  # type: ignore[attr-defined]
    about = {"forward": forward, "__doc__": kind.__doc__, "__module__": kind.__module__}
    about[WITHOUT_KERNEL] = kernel.model
    return type(kind.__name__, (kind,), about)


def _with_forward(original: torch.nn.Module) -> type[torch.nn.Module]:
    """The original's class, or one derived from it if the instance has a forward() of its own."""
    own = vars(original).get("forward")
    if own is None:
        return type(original)

    def forward(self: Any, *inputs: Any, **named: Any) -> Any:
        return own(*inputs, **named)

    taken = inspect.signature(own).parameters.values()
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first, *(one for one in taken)], __validate_parameters__=False
    )
    return type(type(original).__name__, (type(original),), {"forward": forward})


def _modes(module: torch.nn.Module) -> tuple[bool, ...]:
    return tuple(part.training for part in module.modules())


def _same_modes(given: GivenModule) -> list[list[bool]] | None:
    """Returns the modes in which the given module computes the same as when it was traced. A mode is a list
    of the `training` flags of the module and its parts. None if the module computes the same for training and
    for inference."""
    parts = list(given.module.modules())
    before = _modes(given.module)
    if len(given.modes) != len(parts):
        return [list(given.modes)]
    empty = pytree.tree_map_only(Example, Example.empty, (given.arguments, given.named))
    codes: dict[tuple[bool, ...], str | None] = {}
    try:
        for modes in (given.modes, (True,) * len(parts), (False,) * len(parts)):
            for part, training in zip(parts, modes, strict=True):
                part.training = training
            try:
                codes[modes] = exported_code(given.module, *empty)
            except BadTask:
                codes[modes] = None
    finally:
        for part, training in zip(parts, before, strict=True):
            part.training = training
    same = [list(modes) for modes, code in codes.items() if code is not None and code == codes[given.modes]]
    uniform = [modes for modes in same if len(set(modes)) == 1]
    return None if len(uniform) == 2 else same or [list(given.modes)]


def _constants(original: torch.nn.Module, exported: Any, names: list[str]) -> dict[str, str]:
    """Returns those tensors that the kernel takes as parameters although the original module does not have
    them as parameters or buffers, since its forward() makes them or keeps them elsewhere. Each name is mapped
    to the attribute that has the tensor in the optimized module."""
    own = {name for name, _ in original.named_parameters(remove_duplicate=False)}
    own |= {name for name, _ in original.named_buffers(remove_duplicate=False)}
    return {name: f"kernel_constants.c{at}" for at, name in enumerate(names) if name not in own}


def _held(module: torch.nn.Module, places: Mapping[str, str]) -> SimpleNamespace:
    """The tensors (parameters or buffers) of `module` that the kernel uses as constants, as attributes of one
    object. `places` maps the name of each tensor to its place, whose last part is the attribute's name: `c0`
    and so on."""
    state = dict(module.named_buffers()) | dict(module.named_parameters())
    return SimpleNamespace(**{place.rpartition(".")[2]: state[name] for name, place in places.items()})


def _follow(constants: SimpleNamespace, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Move the tensors in `constants` to the device of the first tensor of a call."""
    leaves = pytree.tree_leaves((inputs, named))
    device = next((leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
    for name, value in list(vars(constants).items()):
        if device is not None and value.device != device:
            setattr(constants, name, value.to(device))
