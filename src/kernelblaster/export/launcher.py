"""Calls an exported CUDA kernel on torch tensors. The text of this file from the line below on is part of
every exported Python file, so it may use nothing but the standard library and torch."""

# fmt: off
# --- from here on, in exported files ---
import ctypes
import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch

# fmt: on

MOST_PLANS = 1000  # kinds of calls that are remembered
NO_GRADIENTS = "no gradients flow to the parameters through the kernel: it is for inference"


class ExportedKernel:
    """A CUDA source with a launch function, compiled by nvcc for the GPU `architecture`, once on each
    machine. `outputs`, `inputs` and `parameters` describe the launch function's arguments in order: (name,
    type, sizes) for a tensor, (name, type) for a scalar. `sizes` says for each size, by name, where its value
    comes from. A number is the value itself, fixed when the module is built; "free": it is read from the
    shapes of the inputs; "derived": it is known only after running forward of `model`, the original module's
    class.

    The kernel is used only for calls like those it was judged for. `built_with` are the constructor arguments
    of the module that it was judged for: a list by position, or a dict by name. `modes` are the modes of the
    module that the kernel is for: each is a list with `training` of the module and all its submodules; None
    if the module computes the same in every mode. If inputs and parameters have more than `most_bytes` bytes
    in all, the kernel is not used. The function `call` turns the kernel's inputs into the arguments of
    forward: (positional ones, named ones). None if the kernel's inputs are the positional arguments.
    """

    alignment = 256
    device_type = "cuda"
    called_from: tuple[str, ...] = ()  # files whose lines are not worth showing in warnings

    def __init__(
        self,
        source: str,
        architecture: str,
        model: type[torch.nn.Module],
        built_with: Any,
        outputs: list[tuple[Any, ...]],
        inputs: list[tuple[Any, ...]],
        parameters: list[tuple[Any, ...]],
        sizes: dict[str, int | str],
        modes: list[list[bool]] | None,
        most_bytes: int,
        call: Callable[..., Any] | None = None,
    ) -> None:
        self.source = source
        self.architecture = architecture
        self.model = model
        self.built_with = built_with
        self.outputs = outputs
        self.inputs = inputs
        self.parameters = parameters
        self.sizes = sizes
        self.modes = modes
        self.most_bytes = most_bytes
        self.call = call
        self._signature: inspect.Signature | None = None
        self._expected: Any = None
        self.problem: str | None = None
        self._launch: Any = None
        self._said: set[str] = set()
        self._derived: dict[Any, list[tuple[int, ...]]] = {}
        self._plans: dict[Any, _Plan] = {}
        self._forms: dict[Any, tuple[int | str, ...]] = {}
        self._parameters_of = [_getter(name) for name, _, _ in parameters]
        self._asks_module = "derived" in sizes.values()

    # Building

    def build(self, architecture: str | None = None) -> "ExportedKernel":
        """Compiles for `architecture` (None: the one given before) if nvcc is found, and loads the library if
        there is a GPU. Returns this object. If something fails, its attribute `problem` says why, in a
        sentence."""
        self.architecture = architecture or self.architecture
        nvcc = _nvcc()
        if nvcc is None:
            self.problem = "nvcc was not found: put it on the PATH, or set CUDA_HOME"
            return self
        library = self._library(nvcc)
        if not library.is_file():
            self.problem = _compile(nvcc, self.source, self.architecture, library)
        if self.problem is None and torch.cuda.is_available():
            self.load(library)
        return self

    def load(self, library: Path) -> None:
        """Loads the compiled library at this path into the process, so that `launch` can call its function
        `exported_launch`."""
        if "cuTensorMapEncode" in self.source:
            ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
        launch = ctypes.CDLL(str(library)).exported_launch
        launch.restype = ctypes.c_char_p
        numbers = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}
        kinds: list[Any] = [ctypes.c_void_p for _ in self.outputs]
        kinds += [numbers[i[1]] if len(i) == 2 else ctypes.c_void_p for i in self.inputs]
        kinds += [ctypes.c_void_p for _ in self.parameters]
        kinds += [ctypes.c_int64 for _ in self.sizes]
        launch.argtypes = [*kinds, ctypes.c_void_p]
        self._launch = launch

    def _library(self, nvcc: str) -> Path:
        """Where the compiled library is kept for this source, architecture and `nvcc` (its path): in the
        user's own cache, since in a shared folder others could put anything."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        text = "\n".join([self.source, self.architecture, os.path.realpath(nvcc)])
        return cache / "kernelblaster" / "exported" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.so"

    # Guards

    def built_otherwise(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> str | None:
        """Returns in words how a module's constructor arguments, given by position (`arguments`) and by name
        (`named`), differ from those that the kernel was made for. None if they are the same, whether given by
        position, by name or as a default."""
        by_name = isinstance(self.built_with, dict)
        judged = ((), self.built_with) if by_name else (tuple(self.built_with), {})
        try:
            constructor = inspect.signature(self.model)
            given, wanted = self._bound(constructor, arguments, named), self._bound(constructor, *judged)
        except (TypeError, ValueError):  # a wrapped constructor, which takes others than it says
            given, wanted = {"arguments": [arguments, named]}, {"arguments": [*judged]}
        return self._difference(given, wanted, "", [])

    def flat_inputs(
        self, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], str | None]:
        """Returns the inputs of a call of the module in the order in which the kernel takes them, as (inputs,
        None). `inputs` are the call's positional arguments, `named` the others. If the call is not of the
        form that was judged, returns ((), the reason)."""
        if self.call is None and not named and len(inputs) == len(self.inputs):
            return inputs, None
        try:
            if self._signature is None:
                places = [_KernelInput(number) for number in range(len(self.inputs))]
                arguments = (tuple(places), {}) if self.call is None else self.call(*places)
                forward = list(inspect.signature(self.model.forward).parameters.values())[1:]
                signature = inspect.Signature(forward)
                self._expected = self._bound(signature, *arguments)
                self._signature = signature
            given = self._bound(self._signature, inputs, named)
        except (TypeError, ValueError) as error:  # no such call, or a wrapped forward()
            return (), str(error)
        found: list[Any] = [None] * len(self.inputs)
        reason = self._difference(given, self._expected, "", found)
        return (tuple(found), None) if reason is None else ((), reason)

    def _ordered(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], str | None]:
        """As `flat_inputs`; how calls with the same number of inputs by position and the same names are put
        in order is remembered, where each of the kernel's inputs is one argument of the call."""
        form = (len(inputs), *named)
        order = self._forms.get(form)
        if order is None:
            flat, reason = self.flat_inputs(inputs, named)
            if reason is None:
                self._remember_order(form)
            return flat, reason
        return tuple([inputs[at] if isinstance(at, int) else named[at] for at in order]), None

    def _remember_order(self, form: tuple[Any, ...]) -> None:
        """Keep where the kernel's inputs are in calls of this form, (how many by position, the names...).
        Does nothing if some are inside of lists or dicts, or another argument must have a certain value."""
        places, names = [_Given(at) for at in range(form[0])], {name: _Given(name) for name in form[1:]}
        found, reason = self.flat_inputs(tuple(places), dict(names))
        if (
            reason is None
            and all(isinstance(one, _Given) for one in found)
            and len(found) == len(self.inputs)
        ):
            self._forms[form] = tuple(one.place for one in found)

    @staticmethod
    def _bound(signature: inspect.Signature, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The value of each parameter of a call, defaults included, by name. Raises TypeError if the function
        cannot be called so."""
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return dict(bound.arguments)

    def _difference(self, given: Any, wanted: Any, name: str, found: list[Any]) -> str | None:
        """How `given`, an argument called `name` or a structure of some, differs from `wanted`; None if it
        does not. Where `wanted` has an input of the kernel, anything may be given, and goes into `found`."""
        if isinstance(wanted, _KernelInput):
            found[wanted.number] = given
            return None
        same = type(given) is type(wanted)
        if same and isinstance(wanted, dict) and given.keys() == wanted.keys():
            pairs = [(f"{name}[{key!r}]" if name else key, given[key], wanted[key]) for key in wanted]
        elif same and isinstance(wanted, list | tuple) and len(given) == len(wanted):
            pairs = [(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(given, wanted, strict=True))]
        else:
            if same and isinstance(wanted, torch.Tensor):
                same = given.dtype == wanted.dtype and torch.equal(given, wanted)
            elif same:
                same = given is wanted or repr(given) == repr(wanted)
            if isinstance(wanted, torch.Tensor) and isinstance(given, torch.Tensor) and not same:
                return f"{name} has other values"
            return None if same else f"{name} is {self._shown(given)} where {self._shown(wanted)} is expected"
        reasons = (self._difference(one, other, called, found) for called, one, other in pairs)
        return next((reason for reason in reasons if reason is not None), None)

    @staticmethod
    def _shown(value: Any) -> str:
        """An argument in a message."""
        return "a tensor" if isinstance(value, torch.Tensor) else repr(value)[:60]

    def why_not(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> str | None:
        """Returns the reason why the kernel cannot run on these inputs of `module`, as a sentence without a
        full stop; None if it can."""
        otherwise = getattr(module, "built_otherwise", None)
        if otherwise is not None:
            return f"the module was built with other arguments than the kernel is for: {otherwise}"
        if len(inputs) != len(self.inputs):
            return f"{len(inputs)} inputs are given where the kernel takes {len(self.inputs)}"
        parameters = [get(module) for get in self._parameters_of]
        pairs = [(i, v) for i, v in zip(self.inputs, inputs, strict=True) if len(i) == 3]
        pairs += list(zip(self.parameters, parameters, strict=True))
        for number, value in zip(self.inputs, inputs, strict=True):
            if len(number) == 2 and type(value).__name__ != number[1]:
                return f"{number[0]} is a {type(value).__name__} where a {number[1]} is expected"
        reason = self._tensors(pairs) or self._shapes(pairs)
        return reason or self._machine(pairs[0][1].device) or self._modes(module, inputs)

    def _tensors(self, pairs: list[Any]) -> str | None:
        """Why a tensor's type, device, contiguity or alignment does not fit; None if all do. `pairs` are
        (expected tensor, value)."""
        for (name, dtype, _), value in pairs:
            if not isinstance(value, torch.Tensor):
                return f"{name} is a {type(value).__name__} where a tensor is expected"
            if value.dtype != getattr(torch, dtype):
                return f"{name} is {str(value.dtype).removeprefix('torch.')} where {dtype} is expected"
            if value.device.type != self.device_type or value.device != pairs[0][1].device:
                return f"{name} is on {value.device}"
            if not value.is_contiguous():
                return f"{name} is not contiguous"
            if value.data_ptr() % self.alignment:
                return f"{name} does not begin at a multiple of {self.alignment} bytes"
        return None

    def _shapes(self, pairs: list[Any]) -> str | None:
        """Why the shape of a tensor does not fit, or more bytes are given than were judged; None if all fit.
        Equal names of sizes must have equal extents, and fixed sizes must be unchanged. `pairs` are (expected
        tensor, value)."""
        known = {name: size for name, size in self.sizes.items() if not isinstance(size, str)}
        for (name, _, dims), value in pairs:
            shape = tuple(value.shape)
            if len(shape) != len(dims) or 0 in shape:
                return f"{name} has shape {shape} where ({', '.join(dims)}) is expected"
            for axis, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
                if known.setdefault(dim, extent) != extent:
                    return f"{name} has {extent} in dimension {axis} where {known[dim]} is expected"
        given = sum(value.numel() * value.element_size() for _, value in pairs)
        if given > self.most_bytes:
            return f"{given} bytes are given where at most {self.most_bytes} were judged"
        return None

    def _modes(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> str | None:
        """Why the training mode does not fit, or that gradients of inputs are wanted, which the kernel has
        not; None if it can run. Parameters nearly always require gradients, so for them there is only a
        warning."""
        if self.modes is not None and [part.training for part in module.modules()] not in self.modes:
            return f"the module is {'' if module.training else 'not '}in training mode"
        if not torch.is_grad_enabled():
            return None
        return self._gradients(inputs, [get(module) for get in self._parameters_of])

    def _gradients(self, inputs: tuple[Any, ...], parameters: list[torch.Tensor]) -> str | None:
        """That gradients of inputs are wanted; None if not. Warns once if those of parameters are."""
        for value in inputs:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                return "gradients of its inputs are wanted, and the kernel has none"
        if NO_GRADIENTS not in self._said and any(value.requires_grad for value in parameters):
            self.warn_once(NO_GRADIENTS)
        return None

    def _machine(self, device: torch.device) -> str | None:
        """Why the kernel cannot run on `device`: it was not built, or for another architecture; None if it
        can."""
        if self._launch is None:
            return self.problem or "the kernel was not loaded"
        if self.device_type == "cuda":
            here = native_architecture(device)
            if here != self.architecture:
                return f"the kernel is for {self.architecture}, this GPU is {here}"
        return None

    def say_once(self, reason: str) -> None:
        """Warns that the original module runs instead of the kernel, for this reason; the same warning is
        given once only."""
        self.warn_once(f"the original module runs instead of the kernel: {reason}")

    def warn_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            warnings.warn(f"{text}.", stacklevel=_levels_to_caller(self.called_from))

    # Running

    def run(
        self, module: torch.nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[list[torch.Tensor] | None, str | None]:
        """Calls the kernel in place of forward() of `module`, with the positional arguments `inputs` and the
        others `named`. Returns (the outputs, None) or, if the kernel is not for this call, (None, the
        reason). The checks of a call are remembered by the types, shapes and devices of its tensors. For the
        next call with equal ones, only two things are checked again: whether gradients are needed, and the
        alignment of the tensors' addresses."""
        if named or self.call is not None or len(inputs) != len(self.inputs):
            inputs, reason = self._ordered(inputs, named)
            if reason is not None:
                return None, reason
        parameters = [get(module) for get in self._parameters_of]
        key = self._key(module, inputs, parameters)
        plan = self._plans.get(key)
        if plan is None:
            reason = self.why_not(module, inputs)
            if reason is not None:
                return None, reason
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._planned(module, inputs, parameters)
        elif torch.is_grad_enabled() and (reason := self._gradients(inputs, parameters)) is not None:
            return None, reason
        taken = [*inputs, *parameters]
        for at in plan.pointers:
            address = taken[at] = taken[at].data_ptr()
            if address % self.alignment:
                return None, self.why_not(module, inputs)
        return self._launched(plan, taken), None

    def launch(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
        """Runs the kernel on `inputs` and the parameters of `module`, on the current stream; returns the
        outputs. Checks nothing: call it only if `why_not` has returned None for these arguments. Raises
        RuntimeError if the launch fails."""
        parameters = [get(module) for get in self._parameters_of]
        taken = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in (*inputs, *parameters)]
        return self._launched(self._planned(module, inputs, parameters), taken)

    def _key(
        self, module: torch.nn.Module, inputs: tuple[Any, ...], parameters: list[torch.Tensor]
    ) -> tuple[Any, ...]:
        """All that a plan depends on: type, shape, device and contiguity of each tensor, the types of
        numbers (and their values, if sizes of outputs may depend on them), how the module was built, and its
        modes."""
        key: list[Any] = [getattr(module, "built_otherwise", None)]
        for value in (*inputs, *parameters):
            if isinstance(value, torch.Tensor):
                key += (value.shape, value.dtype, value.device, value.is_contiguous())
            else:
                asked = self._asks_module and isinstance(value, int | float)
                key += (type(value), value if asked else None)
        if self.modes is not None:
            key += (part.training for part in module.modules())
        return tuple(key)

    def _planned(
        self, module: torch.nn.Module, inputs: tuple[Any, ...], parameters: list[torch.Tensor]
    ) -> "_Plan":
        """What each call with tensors of these shapes, types and devices does: see `_Plan`."""
        sizes = self._extents(module, inputs, parameters)
        values = (*inputs, *parameters)
        pointers = [at for at, value in enumerate(values) if isinstance(value, torch.Tensor)]
        device = values[pointers[0]].device
        outputs = tuple(
            _allocation([sizes[dim] for dim in dims], getattr(torch, dtype), device)
            for _, dtype, dims in self.outputs
        )
        return _Plan(outputs, tuple(pointers), tuple(sizes[name] for name in self.sizes), device)

    def _launched(self, plan: "_Plan", taken: list[Any]) -> list[torch.Tensor]:
        """Allocate the outputs and launch the kernel; `taken` are its inputs and parameters, tensors by
        address. Returns the outputs. Raises RuntimeError if the launch fails."""
        outputs = [allocate() for allocate in plan.outputs]
        arguments = [*[output.data_ptr() for output in outputs], *taken, *plan.sizes]
        index = plan.device.index
        if plan.device.type != "cuda":
            error = self._launch(*arguments, None)
        elif torch.cuda.current_device() == index:
            error = self._launch(*arguments, _stream(index))
        else:
            with torch.cuda.device(plan.device):
                error = self._launch(*arguments, _stream(index))
        if error:
            raise RuntimeError(f"the kernel could not be launched: {error.decode()}")
        return outputs

    def _extents(
        self, module: torch.nn.Module, inputs: tuple[Any, ...], parameters: list[torch.Tensor]
    ) -> dict[str, int]:
        known = {name: size for name, size in self.sizes.items() if not isinstance(size, str)}
        tensors = [(i[2], v) for i, v in zip(self.inputs, inputs, strict=True) if len(i) == 3]
        tensors += [(p[2], v) for p, v in zip(self.parameters, parameters, strict=True)]
        for dims, value in tensors:
            known |= dict(zip(dims, value.shape, strict=True))
        if self.sizes.keys() - known.keys():
            shapes = self._output_shapes(module, inputs)
            for (_, _, dims), shape in zip(self.outputs, shapes, strict=True):
                known |= dict(zip(dims, shape, strict=True))
        return known

    def _output_shapes(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[tuple[int, ...]]:
        """The shapes that the original module's outputs have for these inputs, found by running it on fake
        tensors; remembered by the inputs' shapes."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils import _pytree as pytree

        key = tuple(tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in inputs)
        if key not in self._derived:
            with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
                empty = [torch.empty_like(v) if isinstance(v, torch.Tensor) else v for v in inputs]
                arguments, named = (empty, {}) if self.call is None else self.call(*empty)
                result = self.model.forward(module, *arguments, **named)
            self._derived[key] = [tuple(t.shape) for t in pytree.tree_leaves(result) if t is not None]
        return self._derived[key]


class _Plan(NamedTuple):
    """What a call does whose tensors have certain shapes, types and devices: functions that allocate the
    `outputs`, where among inputs and parameters the tensors are (`pointers`), the numbers that are passed as
    `sizes`, and the `device`."""

    outputs: tuple[Callable[[], torch.Tensor], ...]
    pointers: tuple[int, ...]
    sizes: tuple[int, ...]
    device: torch.device


class _Given(NamedTuple):
    """Stands for an argument of a call, given at this place: by position, or by this name."""

    place: int | str


class _KernelInput:
    """Stands for the kernel's input of this number, counted from 0, among the arguments of a call."""

    def __init__(self, number: int) -> None:
        self.number = number


def same_signatures(made: type[torch.nn.Module], model: type[torch.nn.Module]) -> None:
    """Gives `made`, a class that takes any arguments and passes them on, the signatures of `model`.
    `inspect.signature`, and tools that use it, then show these."""
    for name in ("__init__", "forward"):
        with suppress(TypeError, ValueError):  # a wrapped one, of which nothing is known
            vars(made)[name].__signature__ = inspect.signature(getattr(model, name))


def _getter(name: str) -> Callable[[torch.nn.Module], Any]:
    """A function that returns the parameter or buffer of a module with this dotted name, sooner than the
    module's own attributes would."""
    *path, last = name.split(".")
    usual = attrgetter(name)

    def get(module: torch.nn.Module) -> Any:
        part: Any = module
        try:
            for step in path:
                part = part._modules[step]
            found = part._parameters.get(last)
            return part._buffers[last] if found is None else found
        except (AttributeError, KeyError):  # a property, or a plain attribute
            return usual(module)

    return get


def _allocation(size: list[int], dtype: torch.dtype, device: torch.device) -> Callable[[], torch.Tensor]:
    """A function that allocates a contiguous tensor of these."""
    strides = [1]
    for extent in reversed(size[1:]):
        strides.insert(0, strides[0] * extent)
    return partial(torch.empty_strided, size, strides[: len(size)], dtype=dtype, device=device)


def _stream(device: int) -> int:
    """The handle of torch's current stream on the GPU of this number."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch.compile's own code calls
    return raw(device) if raw is not None else torch.cuda.current_stream(device).cuda_stream


def _levels_to_caller(files: tuple[str, ...]) -> int:
    """The `stacklevel` by which a warning of the function that calls this one is shown at the line that
    called the module: the nearest outside of this file, `files` and torch."""
    frame, level = sys._getframe(1), 1
    inside = (frame.f_code.co_filename, *files, str(Path(torch.__file__).parent) + os.sep)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame, level = frame.f_back, level + 1
    return level


def native_architecture(device: torch.device | None = None) -> str:
    """Returns the architecture of the GPU as nvcc names it: "sm_80"; from Hopper on with "a" for
    architecture-specific instructions: "sm_90a". `device` None: the current GPU."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _compile(nvcc: str, source: str, architecture: str, library: Path, limit_s: float = 600.0) -> str | None:
    """Compiles `source` with `nvcc` (its path) for `architecture` and puts the result at `library`,
    atomically. Returns what went wrong, within `limit_s` seconds; None if nothing did."""
    number = architecture.removeprefix("sm_")
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        Path(folder, "kernel.cu").write_text(source)
        command = [nvcc, "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC"]
        command += [f"-gencode=arch=compute_{number},code=sm_{number}", "kernel.cu", "-o", "kernel.so"]
        log = Path(folder, "log")
        with log.open("w") as output:
            try:
                environment = {**os.environ, "TMPDIR": folder}
                done = subprocess.run(
                    command, cwd=folder, env=environment, stdout=output, stderr=output, timeout=limit_s
                )
            except subprocess.TimeoutExpired:
                return f"nvcc did not finish in {limit_s:g} s"
        if done.returncode != 0:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
            return "nvcc failed: " + next((line for line in lines if "error" in line), lines[-1])
        Path(folder, "kernel.so").replace(library)
    return None


def _nvcc() -> str | None:
    """The path of nvcc: from PATH, the CUDA toolkit, or the nvidia-cuda-nvcc package."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    paths = [Path(home, "bin", "nvcc") for home in homes if home]
    paths += [path for folder in sys.path for path in Path(folder, "nvidia").glob("c*/bin/nvcc")]
    return shutil.which("nvcc") or next((str(path) for path in paths if path.is_file()), None)
