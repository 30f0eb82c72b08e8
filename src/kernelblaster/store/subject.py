"""The task of a run, stored with it, so that the run can be continued and judged again even if the original
file is gone."""

from kernelblaster.errors import BadTask, StoreError
from kernelblaster.records import Task
from kernelblaster.store.files import write_whole
from kernelblaster.store.run import Run
from kernelblaster.tasks.catalog import find, load_file, load_task, suites_folder


def keep_task(run: Run, task: Task) -> None:
    """Stores the task's source in the run, so that the run does not depend on the user's file; also the
    task's name, the type of its inputs, and the type to which its tensors are cast. Does nothing if they are
    stored already."""
    suffix = ".cu" if task.kind == "cuda" else ".py"
    kept = {"name": task.name, "dtype": task.dtype, "cast": task.cast, "suffix": suffix}
    run.once("task", "kept", lambda: kept | {"source": run.files.put(task.source)})


def keeps_shipped_task(run: Run) -> bool:
    """True if the run's task comes with KernelBlaster, in one of its suites, and its source is exactly the
    one shipped. Its code can then be run without asking the user for trust."""
    kept = next((event.data for event in run.events if event.kind == "task"), None)
    if kept is None:
        return False
    try:
        shipped = [path for _, path in find(str(kept["name"])) if path.is_relative_to(suites_folder())]
        source = run.files.get(str(kept["source"]))
    except (BadTask, StoreError, KeyError):
        return False
    return len(shipped) == 1 and shipped[0].read_text() == source


def task_of(run: Run) -> Task:
    """Returns the task as it was when the run began, loaded from the source that is stored in the run. A run
    without a stored source has recorded the task's name, by which it is loaded. Raises StoreError if the run
    records neither."""
    kept = next((event.data for event in run.events if event.kind == "task"), None)
    if kept is not None:
        copy = run.folder / f"task{kept['suffix']}"
        source = run.files.get(kept["source"])
        if not copy.is_file() or copy.read_text() != source:
            write_whole(copy, source)
        return load_file(kept["name"], copy, kept.get("cast", kept["dtype"]))
    about = run.events[0].data
    if "task" not in about:
        raise StoreError(f"{run.folder}: does not say which task it is for.")
    return load_task(about["task"], about.get("dtype"))
