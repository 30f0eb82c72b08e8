"""Which mutants come first, and which a GPU need not judge."""

from pathlib import Path
from types import SimpleNamespace

from mutants import Result, judged, most_alike_first

from kernelblaster.records import Incorrect


def test_kernels_of_the_task_with_most_come_first(tmp_path: Path) -> None:
    files = []
    for name, task in (("a", "one"), ("b", "two"), ("c", "three"), ("d", "two")):
        file = tmp_path / f"{name}.cu"
        file.write_text(f"// task: {task}\n")
        files.append(file)
    assert [file.stem for file in most_alike_first(files)][:2] == ["b", "d"]


def test_what_the_filter_rejects_is_not_judged_on_a_gpu() -> None:
    judge = SimpleNamespace(check=lambda *_: SimpleNamespace(outcome=Incorrect(reason="wrong", evidence="")))

    def result(emulated: str) -> Result:
        return Result("f", "index", "", 1, "", "is wrong", "", emulated, "a race", emulated, "", 1.0)

    verdict = judged(judge, filtered=True)
    assert verdict(None, result("Rejected")).detail == "by the filter: a race"
    assert verdict(None, result("Verification")).verdict == "Incorrect"
    assert judged(judge, filtered=False)(None, result("Rejected")).verdict == "Incorrect"
