"""Finds tasks by the names that users give them, and loads them. A name stands for a task of a shipped suite,
a file, a folder, or a checkout of KernelBench."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from kernelblaster.errors import BadTask
from kernelblaster.processes.collection import collect_as_usual
from kernelblaster.records import Task
from kernelblaster.records.signature import Dtype
from kernelblaster.strict_json import InvalidJson, read_bounded
from kernelblaster.tasks import cuda_file
from kernelblaster.tasks.cuda_prepare import prepared
from kernelblaster.tasks.foreign import confinement_hint

KERNELBENCH = "kernelbench:"
LARGEST_BYTES = 4 << 20  # of a task's file
MUCH_PRINTED = 1 << 20  # characters
TASK_LIKE = {  # by suffix, what a file of a folder has that may be a task
    ".py": re.compile(rb"^class (Model\b|\w+\([^)]*Module)|^def get_inputs\b", re.MULTILINE),
    ".cu": re.compile(rb"__global__|" + cuda_file.MARK.encode()),
    ".pt2": re.compile(b""),
}
CLASS = re.compile(r"^[^:].*[^:/\\]:[A-Za-z_]\w*$")  # file.py:Class, package.module:Class


def suites_folder() -> Path:
    """Returns the folder of shipped suites: in a checkout it lies next to the sources, in an installation
    inside the package."""
    inside = Path(__file__).parent.parent / "suites"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "suites"


def find(name: str) -> list[tuple[str, Path]]:
    """Resolves a task's or suite's name as a user gives it: a file, a folder, a shipped suite or a task of
    one, or `kernelbench:PATH`. Returns (task name, file) of every task that it stands for; the files are not
    loaded. Raises BadTask if there is none."""
    if name.startswith(KERNELBENCH):
        return _kernelbench(name)
    path = Path(name)
    if path.is_file():
        return [(name, path)]
    if not name:
        raise BadTask("the name of the task is empty; name a file, or a task of `kernelblaster tasks list`.")
    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise BadTask(f"{name}: this folder cannot be read: permission is denied.")
        tasks = [(str(file), file) for file in _task_files(path)]
        if not tasks:
            raise BadTask(
                f"{name}: no task in this folder (a .py with a module, a .cu with a kernel, or a .pt2)."
            )
        return tasks
    shipped = suites_folder() / name
    if shipped.is_dir():
        return [(str(f.relative_to(suites_folder()).with_suffix("")), f) for f in _task_files(shipped)]
    for suffix in (".py", ".cu"):
        if shipped.with_suffix(suffix).is_file():
            return [(name, shipped.with_suffix(suffix))]
    raise BadTask(f"{name}: no such task, file or folder.{_similar(name)}")


def names_one(name: str) -> bool:
    """True if `name` stands for a single task; False if it stands for a suite or a folder. A name like
    FILE:CLASS always stands for one task. Raises BadTask if nothing has that name."""
    return bool(class_in(name)[1]) or len(find(name)) == 1


def load_task(
    name: str, dtype: Dtype | None = None, *, inputs: str | None = None, init: str | None = None
) -> Task:
    """Returns the task that `name` stands for, with its signature and workloads, which are derived from its
    file. `dtype` is what floating tensors are cast to; None keeps the file's types. `inputs` and `init` are
    example inputs and constructor arguments as Python expressions, for a module whose file has none. Raises
    BadTask if there is no such task, there are several, or it cannot be loaded."""
    where, module = class_in(name)
    if module and Path(where).suffix not in (".py", ".pt2"):
        from kernelblaster.tasks.importable import imported_source

        source, path = imported_source(where, module), f"<{name}>"
        return load_source(name, source, path, dtype, module=module, inputs=inputs, init=init)
    tasks = find(where)
    if len(tasks) > 1:
        raise BadTask(f"{name}: stands for {len(tasks)} tasks; name one, for example {tasks[0][0]}.")
    return load_file(name, tasks[0][1], dtype, module=module or None, inputs=inputs, init=init)


def class_in(name: str) -> tuple[str, str]:
    """Splits a name like FILE:CLASS or package.module:CLASS into (file or package, class). A name without a
    class gives (name, "")."""
    if name.startswith(KERNELBENCH) or not CLASS.search(name):
        return name, ""
    where, _, module = name.rpartition(":")
    return where, module


def load_file(name: str, path: Path, dtype: Dtype | None = None, **wanted: str | None) -> Task:
    """Returns the task in a .py, .cu or .pt2 file, with the name `name`. `dtype` is what floating tensors are
    cast to (None: the file's own types; ignored for .cu). `wanted` may have `module`, `inputs` and `init`:
    the name of the class, example inputs and constructor arguments, for a file that lacks them. Raises
    BadTask if the file is no task and cannot be completed to one."""
    if path.suffix == ".pt2":
        from kernelblaster.tasks.torch_programs import exported_source

        return load_source(name, exported_source(path), str(path), dtype, **wanted)
    try:
        source = read_bounded(path, LARGEST_BYTES).decode("utf-8-sig").replace("\r\n", "\n")
    except InvalidJson as error:
        raise BadTask(f"{path}: {error}.") from error
    except UnicodeDecodeError as error:
        raise BadTask(f"{path}: cannot be read: {error}; save it as UTF-8.") from error
    except OSError as error:
        raise BadTask(f"{path}: cannot be read: {error.strerror or error}.") from error
    if path.suffix == ".cu":
        source = prepared(source, str(path))
        parsed = cuda_file.CudaFile(source, str(path))
        collect_as_usual()
        return Task(
            name=name,
            kind="cuda",
            path=str(path),
            source=source,
            dtype=parsed.signature.outputs[0].dtype,
            signature=parsed.signature,
            workloads=parsed.workloads(),
        )
    if path.suffix != ".py":
        raise BadTask(f"{path}: a task is a .py or a .cu file, or an exported program (.pt2).")
    from kernelblaster.tasks.complete import check_names
    from kernelblaster.tasks.local_modules import with_local_modules

    check_names(source, str(path))
    try:
        whole = with_local_modules(source, path)
    except OSError as error:
        raise BadTask(f"{path}: imports what cannot be read: {error}{confinement_hint(error)}") from error
    return load_source(name, whole, str(path), dtype, **wanted)


def load_source(name: str, source: str, path: str, dtype: Dtype | None = None, **wanted: str | None) -> Task:
    """Returns the task in the Python text `source`, with the name `name`; `path` names the text in messages.
    `dtype` is what floating tensors are cast to (None: the text's own types). `wanted` may have `module`,
    `inputs` and `init`: the name of the class, example inputs and constructor arguments, for a text that
    lacks them. The text is executed. Raises BadTask if it is no task and cannot be completed to one."""
    import torch  # slow to import, so only where a module is really loaded

    from kernelblaster.tasks.complete import CompletionRequest, completed
    from kernelblaster.tasks.derive import Derivation
    from kernelblaster.tasks.quiet import printed_characters
    from kernelblaster.tasks.small import learn_small
    from kernelblaster.tasks.types import learn_types

    before = printed_characters()
    file, notes = completed(source, path, CompletionRequest(**wanted))
    cast, primary, more = learn_types(file, dtype)
    derived = Derivation(file, primary, learn_small(file, getattr(torch, cast) if cast else None, primary))
    collect_as_usual()
    if printed_characters() - before > MUCH_PRINTED:
        more += ("what the file prints, megabytes of it, is not shown",)
    return Task(
        name=name,
        kind="module",
        path=path,
        source=file.source,
        dtype=derived.dtype,
        signature=derived.signature,
        workloads=derived.workloads(),
        small_declared=file.declared_small is not None,
        cast=cast,
        notes=notes + more,
    )


def _task_files(folder: Path) -> Iterator[Path]:
    """Yields the files below a folder that may be tasks by their suffix and text, sorted; hidden folders and
    virtual environments are skipped. Whether they really are tasks shows only when they are loaded."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(("_", ".")) and not (Path(where) / name / "pyvenv.cfg").exists()
        )
        for file in sorted(Path(where) / name for name in files if not name.startswith(("_", "."))):
            if file.suffix in TASK_LIKE and file.is_file() and _looks_like_a_task(file):
                yield file


def _looks_like_a_task(file: Path) -> bool:
    """Whether a file's text has what a task's has (TASK_LIKE, by suffix). True for an unreadable one, so that
    loading it reports why."""
    try:
        with file.open("rb") as opened:
            return TASK_LIKE[file.suffix].search(opened.read(LARGEST_BYTES)) is not None
    except OSError:
        return True


def _kernelbench(name: str) -> list[tuple[str, Path]]:
    """(task name, file) of the problems that a name selects: `kernelbench:PATH`, `…/level1`,
    `…/level1/23`; PATH is a KernelBench checkout or its data folder. Raises BadTask if there are none."""
    text = name.removeprefix(KERNELBENCH)
    match = re.match(r"(.*?)(?:/(level\d))?(?:/(\d+))?/?$", text)
    assert match
    root, level, number = Path(match[1] or "."), match[2], match[3]
    data = root / "KernelBench" if (root / "KernelBench").is_dir() else root
    folders = [data / level] if level else sorted(data.glob("level[0-9]"))
    tasks = []
    for folder in folders:
        for file in sorted(folder.glob("*.py"), key=_problem_number):
            if number is None or _problem_number(file) == int(number):
                tasks.append((f"{KERNELBENCH}{folder.name}/{file.stem}", file))
    if not tasks:
        raise BadTask(f"{name}: no KernelBench problem there; expected level1/1_name.py below {data}.")
    return tasks


def _problem_number(file: Path) -> int:
    """The number N of a KernelBench file N_name.py; a huge one for other files, so that they are sorted
    last."""
    match = re.match(r"(\d+)_", file.name)
    return int(match[1]) if match else 1 << 30


def _similar(name: str) -> str:
    """The sentence ' Did you mean …?' with files of similar names in the folder named, or else shipped
    tasks; "" if there are none."""
    import difflib

    path = Path(name)
    beside: list[str] = []
    if path.suffix in TASK_LIKE:
        try:
            files = [file.name for file in path.parent.iterdir() if file.suffix in TASK_LIKE]
        except OSError:  # no such folder, or this process may not list it
            files = []
        beside = [str(path.with_name(near)) for near in difflib.get_close_matches(path.name, files, n=2)]
    known = [str(f.relative_to(suites_folder()).with_suffix("")) for f in _task_files(suites_folder())]
    close = beside or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""
