"""Checks Python task files whose authors must not run commands, such as agents: refuses code that does more
than define a module.

The text is parsed, never run: only syntax, names, attributes and functions on the lists below are let
through. Nothing there opens files, imports other modules, starts processes or reaches Python's internals.
"""

import ast
import importlib
import tomllib
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)

from kernelblaster.errors import BadTask

LARGEST = 200_000  # characters
MODULES = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.linalg",
    "torch.special",
    "math",
)
TYPING = ("typing", "__future__")
_names = tomllib.loads((Path(__file__).parent / "plain_names.toml").read_text())
BUILTINS, TORCH, METHODS, REFUSED = (
    frozenset(_names[kind]) for kind in ("builtins", "torch", "attributes", "refused")
)
SYNTAX = tuple(getattr(ast, name) for name in _names["syntax"])
INTERNALS = frozenset(
    name
    for kind in (
        CodeType,
        FrameType,
        FunctionType,
        GeneratorType,
        MethodType,
        ModuleType,
        TracebackType,
        type,
    )
    for name in dir(kind)
)
"""Attributes of what Python programs are made of; a file may not have any of that name."""


def check_plain(source: str, where: str) -> None:
    """Raises BadTask unless a Python text (`source`) is plain: imports of torch and math, constants,
    functions, and classes derived from `nn.Module`, made of tensor operations, and nothing else. `where`
    names the text in the message, beside the line."""
    if len(source) > LARGEST:
        raise BadTask(f"{where}: has more than {LARGEST} characters.")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTask(f"{where}: is no Python: {error}.") from error
    try:
        _Check(tree, where).visit(tree)
    except RecursionError as error:
        raise BadTask(f"{where}: is nested too deeply.") from error


class _Check(ast.NodeVisitor):
    """Visits every node of a file's syntax tree and raises BadTask at the first that is not plain (allowed by
    `check_plain`). `where` names the file in the message."""

    def __init__(self, tree: ast.Module, where: str) -> None:
        self._where = where
        self._modules: dict[str, ModuleType] = {}
        self._imported: set[str] = set()
        nodes = list(ast.walk(tree))
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        self._defined = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        self._defined |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self._defined |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        self._own = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
        self._own |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
        self._own |= _registered(nodes)
        for name in sorted(self._defined & (self._modules.keys() | BUILTINS)):
            self._refuse(tree, f"{name} is given another meaning")

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, SYNTAX):
            self._refuse(node, f"{type(node).__name__} has no place in a module")
        super().generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """Accepts every import statement without looking into it, because `__init__` has checked them all
        before."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Accepts every `from ... import` statement without looking into it, because `__init__` has checked
        them all before."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        bases = [ast.unparse(base) for base in node.bases]
        if node.keywords or node.decorator_list or len(bases) != 1:
            self._refuse(node, f"class {node.name} must be derived from nn.Module, and from nothing else")
        self._name(node, node.name)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "__init__":
            self._name(node, node.name)
        for decorator in node.decorator_list:
            if ast.unparse(decorator) not in ("staticmethod", "property", "torch.no_grad()"):
                self._refuse(node, f"@{ast.unparse(decorator)[:60]} is not allowed")
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        self._name(node, node.arg)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self._name(node, node.arg)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._modules:
            self._refuse(node, f"{node.id} is a module, and no value")
        if node.id not in self._defined | self._imported | BUILTINS:
            self._refuse(node, f"{node.id} is not a name that a plain module may use")
        if isinstance(node.ctx, ast.Store):
            self._name(node, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr == "__init__" and ast.unparse(node.value).startswith("super("):
            self.generic_visit(node)
            return
        self._name(node, node.attr)
        module = self._module(node.value)
        if self._module(node) is not None:
            self._refuse(node, f"{node.attr} is a module, and no value")
        if module is not None:
            if not _is_plain(module, node.attr):
                self._refuse(node, f"{module.__name__}.{node.attr} is not allowed")
        elif isinstance(node.ctx, ast.Load) and node.attr not in self._own and not _is_attribute(node.attr):
            self._refuse(node, f".{node.attr} is not an attribute of tensors or modules")
        if module is None:
            self.generic_visit(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Remember the modules and names that an import statement binds. Raises BadTask if it imports from
        anything else than MODULES and TYPING, or a name that is not plain."""
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name not in MODULES:
                    self._refuse(node, f"import {one.name} is not allowed; there are {', '.join(MODULES)}")
                bound = one.name if one.asname else one.name.partition(".")[0]
                self._modules[one.asname or bound] = importlib.import_module(bound)
            return
        if node.level or node.module not in (*MODULES, *TYPING):
            self._refuse(node, f"import from {node.module} is not allowed; there are {', '.join(MODULES)}")
        for one in node.names:
            full = f"{node.module}.{one.name}"
            if full in MODULES:
                self._modules[one.asname or one.name] = importlib.import_module(full)
            elif node.module in TYPING or _is_plain(importlib.import_module(str(node.module)), one.name):
                self._name(node, one.name)
                self._imported.add(one.asname or one.name)
            else:
                self._refuse(node, f"{full} is not allowed")

    def _module(self, node: ast.expr) -> ModuleType | None:
        """The module that an expression like `torch.nn` stands for; None if the expression is something
        else."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self._module(node.value)
            full = f"{outer.__name__}.{node.attr}" if outer else ""
            return importlib.import_module(full) if full in MODULES else None
        return None

    def _name(self, node: ast.AST, name: str) -> None:
        """Raise BadTask if the file may not use `name`: it begins with two underscores, belongs to Python's
        internals (frames, code objects, ...), or is in REFUSED. `node` gives the line for the message."""
        if name.startswith("__") or name in REFUSED or name in INTERNALS:
            self._refuse(node, f"{name} is not allowed")

    def _refuse(self, node: ast.AST, why: str) -> None:
        raise BadTask(
            f"{self._where}, line {getattr(node, 'lineno', 1)}: {why}. A task file from an agent may import "
            "torch and math, define classes derived from nn.Module, get_inputs() and get_init_inputs(), "
            "and do nothing else; the person who runs the server can lift this with --trust-tasks."
        )


def _registered(nodes: list[ast.AST]) -> set[str]:
    """Names of buffers, parameters and submodules that a file registers by a string literal, as in
    `register_buffer("mask", ...)`."""
    return {
        node.args[0].value
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("register_buffer", "register_parameter", "add_module")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def _is_plain(module: ModuleType, name: str) -> bool:
    """Whether a file may use the attribute `name` of `module`, one of MODULES: it is a tensor operator, a
    function of torch.nn, a class of modules or a number."""
    import torch

    if name.startswith("_") or name in REFUSED or not hasattr(module, name):
        return False
    value = getattr(module, name)
    if module is torch:
        return name in TORCH or hasattr(torch._C._VariableFunctions, name)
    if isinstance(value, ModuleType):
        return f"{module.__name__}.{name}" in MODULES
    if isinstance(value, type):
        return issubclass(value, torch.nn.Module | torch.nn.Parameter)
    own = isinstance(value, FunctionType) and str(value.__module__).startswith("torch.nn")
    return (own and name != "boolean_dispatch") or isinstance(value, BuiltinFunctionType | int | float)


def _is_attribute(name: str) -> bool:
    """Whether a file may read `.name` of a value of unknown type: `name` is a public attribute of
    torch.Tensor or in METHODS."""
    import torch

    return name in METHODS or (not name.startswith("_") and hasattr(torch.Tensor, name))
