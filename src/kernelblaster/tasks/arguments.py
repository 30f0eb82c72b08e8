"""Parses example inputs and constructor arguments as a user writes them: "randn(8192, 4096)", "64,
bias=False"."""

import ast
import inspect

import torch

from kernelblaster.errors import BadTask


def input_values(text: str, path: str) -> str:
    """Returns Python source for the inputs that the user gave as `text` with `--inputs`. "randn(8), 3"
    becomes the list "[torch.randn(8), 3]". If some inputs are named, it is a dict whose keys are the names,
    and the positions 0, 1, … for the others: "randn(8), n=3" becomes "{0: torch.randn(8), 'n': 3}". Raises
    BadTask, which names the file `path`, if the text does not parse."""
    call = _parsed(text, path, "--inputs", "randn(8192, 4096)")
    if not call.keywords:
        return _list(call.args)
    given = [f"{number}: {ast.unparse(value)}" for number, value in enumerate(call.args)]
    given += [f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in call.keywords]
    return "{" + ", ".join(given) + "}"


def init_arguments(model: type, path: str, text: str | None) -> str:
    """Returns Python source for the arguments of the constructor of `model` that the user gave as `text` with
    `--init`: a list such as "[64, 10]" or, if some are named, a dict from parameter names to values. If
    `text` is None, returns "[]". Raises BadTask, which names the file `path`, if `text` does not parse, or is
    None although the constructor has parameters without a default."""
    own = inspect.signature(model.__init__).parameters.values()  # type: ignore[misc]
    parameters = [p for p in list(own)[1:] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if text is None:
        needed = [p.name for p in parameters if p.default is p.empty]
        if needed:
            example = ", ".join(f"{name}=..." for name in needed)
            raise BadTask(
                f"{path}: {model.__name__} is built with {', '.join(needed)}: add get_init_inputs() to the "
                f'file, or give --init "{example}".'
            )
        return "[]"
    call = _parsed(text, path, "--init", "64, bias=False")
    if not call.keywords:
        return _list(call.args)
    named = {p.name: value for p, value in zip(parameters, call.args, strict=False)}
    named |= {keyword.arg or "": keyword.value for keyword in call.keywords}
    return "{" + ", ".join(f"{name!r}: {ast.unparse(value)}" for name, value in named.items()) + "}"


def _list(values: list[ast.expr]) -> str:
    """The source text of a Python list whose elements are these expressions."""
    return "[" + ", ".join(map(ast.unparse, values)) + "]"


def _parsed(text: str, path: str, option: str, example: str) -> ast.Call:
    """The text parsed as the arguments of a call, with names of torch completed (`randn` to `torch.randn`).
    `option` and `example` are only for the message of the BadTask that is raised if it does not parse."""
    try:
        call = ast.parse(f"_({text}\n)", mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or any(keyword.arg is None for keyword in call.keywords):
        raise BadTask(f'{path}: {option} "{text}" is not a list of Python values such as "{example}".')
    return ast.fix_missing_locations(_OfTorch().visit(call))  # type: ignore[no-any-return]


class _OfTorch(ast.NodeTransformer):
    """Rewrites names that torch defines to attributes of it: `randn` becomes `torch.randn`, `bfloat16`
    becomes `torch.bfloat16`."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ("_", "torch") or not hasattr(torch, node.id):
            return node
        return ast.Attribute(ast.Name("torch", ast.Load()), node.id, ast.Load())
