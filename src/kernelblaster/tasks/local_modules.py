"""Makes a task a single text that runs without the folder it came from: the local modules that a task's file
imports are embedded in its text."""

import ast
import sys
from contextlib import suppress
from pathlib import Path

from kernelblaster.tasks.literals import BESIDE_MARK

MOST_FILES = 200
LOADER = '''
import importlib.abc
import importlib.util
import sys


class _Beside(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that lay beside the file."""

    def find_spec(self, name, path=None, target=None):
        if name not in _BESIDE:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=_BESIDE[name][0])

    def exec_module(self, module):
        exec(compile(_BESIDE[module.__name__][1], f"<{module.__name__}>", "exec"), module.__dict__)


for _name in _BESIDE:
    sys.modules.pop(_name, None)
sys.meta_path.insert(0, _Beside())
'''


def with_local_modules(source: str, path: Path) -> str:
    """Returns `source`, the text of the file at `path`, preceded by the sources of the local modules that it
    imports, directly or through others, and by code that makes them importable. Unchanged if it imports
    none."""
    folder = path.resolve().parent
    package = _package_of(folder)
    modules = _LocalModules(folder, package)
    relative = modules.follow(ast.parse(source), package)
    if not modules.texts:
        return source
    return _embedded(modules.texts, source, package if relative else "")


def with_package(source: str, folder: Path) -> str:
    """Makes a text independent of the modules beside it. Returns `source`, preceded by the local modules that
    it imports and by code that makes them importable. The modules are looked for in `folder`, since the text
    itself is in no file. Returns `source` unchanged if it imports none."""
    modules = _LocalModules(folder.resolve(), "")
    modules.follow(ast.parse(source), "")
    return _embedded(modules.texts, source, "") if modules.texts else source


def _embedded(texts: dict[str, tuple[bool, str]], source: str, package: str) -> str:
    """The source preceded by a dict of the embedded modules (`texts`, as in `_LocalModules`) and by code that
    imports them from there. `package` is the package that the source's relative imports refer to; "" if it
    has none."""
    future, own = _without_future(source)
    shown = "".join(f"    {name!r}: ({whole}, {_text(text)}),\n" for name, (whole, text) in texts.items())
    setting = f"__package__ = {package!r}\n" if package else ""
    return f"{future}_BESIDE = {{\n{shown}}}\n{LOADER}{setting}{BESIDE_MARK}\n{own}"


class _LocalModules:
    """Collects the sources of local modules, at most MOST_FILES. `texts` maps each module's full name to
    (is a package, source). Modules are looked for in `folder` and in the folder above the package that
    it belongs to (`package`, "" if none)."""

    def __init__(self, folder: Path, package: str) -> None:
        self.texts: dict[str, tuple[bool, str]] = {}
        depth = len(package.split(".")) if package else 0
        self._top = folder.parents[depth - 1] if depth else folder
        self._folders = [self._top] if self._top == folder else [folder, self._top]

    def follow(self, tree: ast.Module, package: str) -> bool:
        """Collect the local modules that a module of this `package` with this syntax tree imports, directly
        and through others; returns whether some of its own imports are relative."""
        relative = False
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._take(alias.name)
            elif isinstance(node, ast.ImportFrom):
                relative |= node.level > 0
                base = _absolute(node, package)
                for name in [base, *(f"{base}.{alias.name}" for alias in node.names)]:
                    self._take(name.strip("."))
        return relative

    def _take(self, name: str) -> None:
        """Collect a local module by its dotted name, and the packages that contain it; nothing for the
        standard library, torch and numpy, or where there is no local file."""
        parts = name.split(".")
        if not parts[0] or parts[0] in sys.stdlib_module_names or parts[0] in ("torch", "numpy"):
            return
        for count in range(1, len(parts) + 1):
            self._take_one(".".join(parts[:count]))

    def _take_one(self, name: str) -> None:
        """Collect one module if there is a local file or folder for it and it is not yet collected. A
        folder without __init__.py counts as an empty package."""
        if name in self.texts or len(self.texts) >= MOST_FILES:
            return
        path = Path(*name.split("."))
        for folder in self._folders:
            file, whole = folder / path.with_suffix(".py"), folder / path / "__init__.py"
            if whole.is_file():
                self._add(name, whole.read_text(encoding="utf-8-sig"), is_package=True)
            elif file.is_file():
                self._add(name, file.read_text(encoding="utf-8-sig"), is_package=False)
            elif (folder / path).is_dir() and any((folder / path).glob("*.py")):
                self._add(name, "", is_package=True)
            else:
                continue
            return

    def _add(self, name: str, text: str, *, is_package: bool) -> None:
        """Stores the source `text` of the module `name` in `texts`, then does the same for the local modules
        that it imports. `is_package`: it is a package's __init__.py."""
        self.texts[name] = (is_package, text)
        with suppress(SyntaxError):  # reported when it is imported
            self.follow(ast.parse(text), name if is_package else name.rpartition(".")[0])


def _package_of(folder: Path) -> str:
    """The dotted package name that modules in `folder` have; for a folder without __init__.py, the folder's
    own name."""
    parts = [folder.name]
    while (folder / "__init__.py").is_file() and (folder.parent / "__init__.py").is_file():
        folder = folder.parent
        parts.insert(0, folder.name)
    return ".".join(parts)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The full dotted name of the module that a `from ... import` statement names. `package` is that of the
    importing file, which relative imports (leading dots) start from."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _without_future(source: str) -> tuple[str, str]:
    """(the `from __future__` imports, which must come first in a file; the source with them commented
    out, so that line numbers stay)."""
    lines = source.split("\n")
    future = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            future.append(ast.unparse(node))
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = f"# {lines[number]}"
    return "".join(f"{line}\n" for line in future), "\n".join(lines)


def _text(source: str) -> str:
    """Writes a source as a Python string literal: in triple quotes if that needs no escapes, else by
    repr()."""
    plain = "'''" not in source and "\\" not in source and "\r" not in source
    return f"'''{source}'''" if plain and not source.endswith("'") else repr(source)
