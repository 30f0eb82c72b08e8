"""Which tasks a suite stands for."""

from pathlib import Path

import pytest

from kernelblaster.bench.suite import entries_of, load_entry, ranges
from kernelblaster.errors import BadTask


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for level, count in ((1, 5), (2, 3)):
        folder = tmp_path / "KernelBench" / f"level{level}"
        folder.mkdir(parents=True)
        for number in range(1, count + 1):
            (folder / f"{number}_task.py").write_text("class Model: pass\n")
    return tmp_path


def test_a_kernelbench_checkout_by_levels_and_problems(checkout: Path) -> None:
    suite = f"kernelbench:{checkout}"
    assert len(entries_of([suite])) == 8
    found = entries_of([suite], levels=[2])
    assert [(entry.name, entry.group) for entry in found] == [
        (f"kernelbench:level2/{number}_task", "level2") for number in (1, 2, 3)
    ]
    assert [entry.number for entry in entries_of([suite], levels=[1], problems="2-3,5")] == [2, 3, 5]


def test_a_subset_is_drawn_from_each_level_and_stays_the_same(checkout: Path) -> None:
    suite = f"kernelbench:{checkout}"
    found = entries_of([suite], subset=2)
    assert [entry.group for entry in found] == ["level1", "level1", "level2", "level2"]
    assert found == entries_of([suite], subset=2)


def test_files_of_a_folder_are_named_by_their_way_from_it(checkout: Path) -> None:
    found = entries_of([str(checkout / "KernelBench" / "level1")])
    assert found[0].name == "level1/1_task" and Path(found[0].path).is_file()


def test_a_folder_of_own_files_needs_no_marks(own: Path) -> None:
    """Also those that will be refused: the bench says why. A kernel and a module may be named alike."""
    found = {entry.name: entry for entry in entries_of([str(own)])}
    assert list(found) == ["mine/program", "mine/scale.cu", "mine/scale.py", "mine/blocks/net"]
    task = load_entry(found["mine/scale.cu"], None)
    assert task.kind == "cuda" and "launch_gpu_implementation" in task.source
    with pytest.raises(BadTask, match="keep the kernels and the function that launches them alone"):
        load_entry(found["mine/program"], None)


def test_core_has_its_levels() -> None:
    groups = {entry.group for entry in entries_of(["core"])}
    assert groups == {"level1", "level2", "level3"}


def test_ranges() -> None:
    assert ranges("1-3, 7") == {1, 2, 3, 7}
    with pytest.raises(BadTask, match="neither a number nor a range"):
        ranges("1-3,x")


def test_nothing_left_and_names_that_clash_are_said(checkout: Path) -> None:
    with pytest.raises(BadTask, match="no task is left"):
        entries_of([f"kernelbench:{checkout}"], levels=[3])
    with pytest.raises(BadTask, match="stands for two tasks"):
        entries_of(["core/level1/gelu", "core/level1/gelu"])
