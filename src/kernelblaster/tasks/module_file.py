"""Executes a task's Python file (KernelBench format: Model, get_inputs, get_init_inputs) and gives access to
its module, its inputs, and the integer constants that determine sizes."""

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from kernelblaster.errors import BadTask
from kernelblaster.keeper import seal
from kernelblaster.tasks.device_redirect import DeviceRedirect
from kernelblaster.tasks.foreign import IMPORT_LIMIT_S, Hangs, foreign, kept_going
from kernelblaster.tasks.literals import compiled, literals_of
from kernelblaster.tasks.plain_forward import plain_forward
from kernelblaster.tasks.shape_rules import without_values

T = TypeVar("T")
TASK = "kernelblaster_task_"  # and a hash: what a file is called as a module
REQUIRED = ("Model", "get_inputs", "get_init_inputs")
KEYWORDS = """
alignas alignof asm auto bool bitand bitor case catch char compl concept const consteval constexpr
constinit decltype default delete do double enum explicit export extern float friend goto inline int long
mutable namespace new noexcept nullptr operator private protected public register requires short signed
sizeof static struct switch template this throw typedef typeid typename union unsigned using virtual void
volatile xor
"""
# Python names that an argument of the launch function cannot have.
RESERVED = {"out", "stream", *KEYWORDS.split()}


@dataclass(frozen=True)
class Executed:
    """The result of running a Python file: its global names with their values, and torch's default dtype
    afterwards."""

    names: dict[str, Any]
    default_dtype: torch.dtype


class ModuleFile:
    """A task's Python file, executed: builds its module and its inputs. `source` is its text, `path` its name
    in messages. Inside `replaced`, some of its constants and literals have other values (`replacements`),
    which gives other sizes. Raises BadTask if the file's code fails, or if it lacks Model, get_inputs or
    get_init_inputs."""

    def __init__(self, source: str, path: str) -> None:
        self.source = source
        self.path = path
        self._executed = execute(source, path)
        self._others: dict[frozenset[tuple[int, int]], Executed] = {}
        self.replacements: dict[str, int] = {}
        missing = [name for name in REQUIRED if not callable(self._namespace.get(name))]
        if missing:
            raise BadTask(
                f"{path}: not a task: {' and '.join(missing)} missing. A task file defines a class "
                "Model and the functions get_inputs() and get_init_inputs()."
            )
        if not is_module_class(self._namespace["Model"]):
            raise BadTask(f"{path}: Model is not a torch.nn.Module.")

    @property
    def _namespace(self) -> dict[str, Any]:
        return self._executed.names

    @property
    def model(self) -> Any:
        """The class that the file calls Model, a torch.nn.Module."""
        return self._namespace["Model"]

    @property
    def literals(self) -> list[int]:
        """The integers written out in the file that may be sizes of tensors (from 4 on), without duplicates,
        the largest first."""
        return literals_of(self.source)

    @property
    def constants(self) -> dict[str, int]:
        """Module-level integers by name, without those that begin with an underscore: the file's sizes
        and hyper-parameters."""
        return {
            name: value
            for name, value in self._namespace.items()
            if type(value) is int and not name.startswith("_")
        }

    @property
    def declared_small(self) -> dict[str, int] | None:
        """The file's own dict SMALL: names of its integer constants with smaller values, by which the module
        becomes small enough for the emulator. None if the file has none. Raises BadTask if it is malformed or
        has names that the file lacks."""
        small = self._namespace.get("SMALL")
        if small is None:
            return None
        if not isinstance(small, dict) or not all(type(v) is int for v in small.values()):
            raise BadTask(f"{self.path}: SMALL should give whole numbers to names of the file.")
        unknown = [name for name in small if name not in self._namespace]
        if unknown:
            raise BadTask(f"{self.path}: SMALL names {', '.join(map(str, unknown))}, which the file lacks.")
        return dict(small)

    @contextmanager
    def replaced(self, constants: Mapping[str, int]) -> Iterator[None]:
        """A context in which integers of the file have other values. A key of `constants` is the name of a
        module-level constant, or digits: "784" stands for every integer literal 784 of the file, which is
        then executed again with the new value there. A module that was built inside the context must run
        inside it too, since forward() may read the constants."""
        before, replaced_before = self._executed, self.replacements
        outer = dict(self._namespace)
        self.replace(constants)
        namespace = self._namespace
        try:
            yield
        finally:
            if namespace is before.names:
                namespace.update({name: outer[name] for name in constants if not name.isdigit()})
            self._executed, self.replacements = before, replaced_before

    def replace(self, constants: Mapping[str, int]) -> None:
        """Gives integers of the file other values, in this object: the module is built and called with them
        from now on. The file on disk stays as it is. A key of `constants` is the name of a
        module-level constant, or digits: "784" stands for every integer literal 784 of the file."""
        literals = {int(key): value for key, value in constants.items() if key.isdigit()}
        if literals:
            self._executed = self._with_literals(literals)
        names = {name: value for name, value in constants.items() if not name.isdigit()}
        self._namespace.update(names)
        self.replacements = {**constants}

    def _with_literals(self, literals: dict[int, int]) -> Executed:
        """The file executed with integer literals replaced (old value to new); only the latest such execution
        is kept and reused."""
        key = frozenset(literals.items())
        if key not in self._others:
            self._others = {key: execute(self.source, self.path, literals)}
        return self._others[key]

    def init_inputs(self) -> Any:
        """Returns what get_init_inputs() of the file returns: the arguments of the constructor, as a list, or
        as a dict by name."""
        return self._guarded("get_init_inputs() failed", self._namespace["get_init_inputs"])

    def build(self) -> torch.nn.Module:
        """Builds and returns a new module, as KernelBench does: in the training mode that the file sets, with
        the present random seed. Inside FakeTensorMode its tensors are fake. If the constructor fails on fake
        tensors, it is run with real ones, and these are replaced by fake ones afterwards. Tensors that the
        module keeps in plain attributes become buffers, so that a candidate receives them. Raises BadTask if
        the constructor fails."""

        def make() -> torch.nn.Module:
            arguments = self._namespace["get_init_inputs"]()
            if isinstance(arguments, dict):
                return _with_buffers(self._namespace["Model"](**arguments))
            return _with_buffers(self._namespace["Model"](*arguments))

        return self._with_or_without_values("Model could not be built", make, _without_values)

    def given_inputs(self) -> Any:
        """Returns what get_inputs() of the file returns or yields: a list, a tuple or a dict. Inside
        FakeTensorMode its tensors are fake. Raises BadTask if it fails or returns anything else."""

        def leave_out(values: Any, bare: Bare) -> Any:
            return pytree.tree_map_only(torch.Tensor, bare, values)

        values = self._with_or_without_values("get_inputs() failed", self._namespace["get_inputs"], leave_out)
        if isinstance(values, torch.Tensor):
            raise BadTask(f"{self.path}: get_inputs() returns a tensor; write it in a list: return [x].")
        if isinstance(values, Iterator):
            values = list(values)
        if not isinstance(values, list | tuple | dict):
            kind = type(values).__name__
            raise BadTask(f"{self.path}: get_inputs() returns a {kind}; return a list, or a dict by name.")
        return values

    def inputs(self) -> list[Any]:
        """Returns the inputs that get_inputs() makes, as a list of tensors and numbers. Raises BadTask if
        there is anything else among them."""
        values = self.given_inputs()
        for position, value in enumerate(values):
            if not isinstance(value, torch.Tensor | int | float | bool):
                kind = type(value).__name__
                raise BadTask(f"{self.path}: input {position} is a {kind}; inputs are tensors or numbers.")
            if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                raise BadTask(
                    f"{self.path}: input {position} is a sparse tensor; give its parts as inputs of their "
                    "own (indices and values), or make it dense."
                )
        return list(values)

    def input_names(self, count: int) -> list[str]:
        """Returns `count` names for the inputs, all valid C identifiers. They are the names of forward's
        positional parameters. Inputs beyond these are called by their positions from 0: "input3"."""
        parameters = inspect.signature(self._namespace["Model"].forward).parameters.values()
        named = [
            p.name for p in list(parameters)[1:] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        names = (named + [f"input{i}" for i in range(len(named), count)])[:count]
        return [name + "_" if name in RESERVED else c_name(name) for name in names]

    def _with_or_without_values(
        self, what: str, call: Callable[[], T], leave_out: Callable[[T, "Bare"], T]
    ) -> T:
        """The result of `call`, which runs the task's code. If that fails on fake tensors or on the meta
        device, it is called again with real tensors on the CPU, and `leave_out` then replaces these in the
        result by tensors without content. `what` says in messages what failed. Raises BadTask if the second
        call fails too, and Hangs at once if the time limit passed."""
        mode = detect_fake_mode()
        if mode is None and torch.get_default_device().type != "meta":
            return self._guarded(what, call)
        try:
            with without_values():
                return self._guarded(what, call)
        except Hangs:
            raise
        except BadTask:
            with unset_fake_temporarily(), torch.device("cpu"):
                made = self._guarded(what, call)
            return leave_out(made, mode.from_tensor if mode else lambda tensor: tensor.to("meta"))

    def _guarded(self, what: str, call: Callable[[], T]) -> T:
        """The result of `call`, run with the file's default dtype, with "cuda" in the code ignored (tensors
        stay on the default device) and within IMPORT_LIMIT_S seconds. Raises BadTask, with `what` in its
        message, if it fails."""
        with (
            foreign(self.path, what, IMPORT_LIMIT_S),
            default_dtype(self._executed.default_dtype),
            plain_forward(),
            DeviceRedirect(),
        ):
            return call()


def c_name(name: str) -> str:
    """Returns a Python name, dotted or not, as a C identifier: characters other than ASCII letters, digits
    and underscores become underscores, and one that begins with a digit gets an underscore before it, such as
    `_0_weight` for the `0.weight` of an nn.Sequential."""
    safe = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"_{safe}" if safe[:1].isdigit() else safe


def parameter_c_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Returns the names of parameters and buffers as C identifiers, in the order of `names`. They differ from
    each other, from the names in `taken` and from C++'s keywords: `_parameter` is put at the end of a name
    that is in use already."""
    used = {*taken, *RESERVED}
    made = []
    for name in names:
        safe = c_name(name)
        while safe in used:
            safe = f"{safe}_parameter"
        used.add(safe)
        made.append(safe)
    return made


def is_task(module: types.ModuleType | None) -> bool:
    """True if the Python module `module` was made by `execute` from a task's file, as its name tells. False
    for None."""
    return module is not None and module.__name__.startswith(TASK)


def is_module_class(value: Any) -> bool:
    """True if `value` is a class that derives from torch.nn.Module; False for anything else, such as an
    instance of one."""
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """A context in which torch makes floating-point tensors of type `dtype` unless told otherwise; the
    previous default is restored at its end."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def call_module(module: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    """Runs the module on `inputs` without gradients. Returns its outputs as a flat list of contiguous
    tensors: nested tuples, lists and dicts are flattened in order, and None is left out. Raises BadTask if
    the module returns anything else than tensors, or none. Exceptions of the module itself pass through."""
    on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in inputs)
    with kept_going("forward()"), torch.no_grad(), nullcontext() if on_gpu else DeviceRedirect():
        result = module(*inputs)
    leaves = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    bad = [type(leaf).__name__ for leaf in leaves if not isinstance(leaf, torch.Tensor)]
    if bad or not leaves:
        raise BadTask(
            f"the module returned {', '.join(bad) or 'nothing'}; it must return tensors, alone or in tuples, "
            "lists and dicts. Leave the rest out."
        )
    return [leaf.contiguous() for leaf in leaves]


def _with_buffers(module: torch.nn.Module) -> torch.nn.Module:
    """The module with tensors in plain attributes (`self.mask = torch.ones(...)`) registered as buffers; all
    but those that a hook of PyTorch's computes before each call, as the old weight normalization does."""
    for owner in module.modules():
        hooks = owner._forward_pre_hooks.values()
        computed = {getattr(hook, name, None) for hook in hooks for name in ("name", "_tensor_name")}
        plain = [name for name, value in vars(owner).items() if isinstance(value, torch.Tensor)]
        for name in plain:
            if name not in computed:
                owner.register_buffer(name, owner.__dict__.pop(name), persistent=False)
    return module


Bare = Callable[[torch.Tensor], torch.Tensor]  # a tensor without content like the given one


def _without_values(module: torch.nn.Module, bare: Bare) -> torch.nn.Module:
    """The module with its parameters and buffers replaced, in place, by tensors without content: `bare` makes
    such a (fake or meta) tensor from a real one."""
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None:
                owner._parameters[name] = torch.nn.Parameter(bare(parameter.detach()), requires_grad=False)
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                owner._buffers[name] = bare(buffer)
    return module


def execute(source: str, path: str, literals: Mapping[int, int] | None = None) -> Executed:
    """Runs a Python file as a new module. `source` is its text, `path` its name in messages. `literals` maps
    integer literals to the values that they get instead. Local modules that were embedded in the text
    (tasks/local_modules.py) are seen by this file only: modules of the same name in this process are restored
    afterwards, and so is torch's default dtype. Raises BadTask if the file's code fails."""
    text = path + source + str(sorted((literals or {}).items()))
    name = TASK + sha256(text.encode()).hexdigest()[:12]
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    seal()
    known = dict(sys.modules)
    before = torch.get_default_dtype()
    try:
        with foreign(path, limit_s=IMPORT_LIMIT_S), plain_forward():
            exec(compiled(source, path, literals or {}), module.__dict__)
        return Executed(module.__dict__, torch.get_default_dtype())
    finally:
        torch.set_default_dtype(before)
        for beside in module.__dict__.get("_BESIDE", ()):
            sys.modules.pop(beside, None)
            if beside in known:
                sys.modules[beside] = known[beside]
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "_Beside"]
