"""Tunable constants written into a source, and the emulator's model that chooses among them."""

from collections.abc import Sequence
from pathlib import Path

from kernelblaster.judge.sweep import baked_variants
from kernelblaster.records import Candidate, Task
from kernelblaster.sessions.judging import Judging
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run, open_run
from tests.search.world import task_named

SOURCE = """// kernelblaster-tune: BLOCK = 64, 128, 256
// kernelblaster-tune: ITEMS = 1, 4
#ifndef BLOCK
#define BLOCK 128
#endif
#define ITEMS 1
int threads() { return BLOCK * ITEMS; }
"""


def test_values_are_written_into_the_source() -> None:
    texts = baked_variants(SOURCE, 10)
    assert texts[0] == SOURCE and len(texts) == 6
    assert sum("#define BLOCK 64\n" in text and "#define ITEMS 4\n" in text for text in texts) == 1
    assert all(text.count("#define") == 2 and "kernelblaster-tune" in text for text in texts)
    assert len(baked_variants(SOURCE, 3)) == 3
    assert baked_variants("int x;\n", 6) == ["int x;\n"]
    assert baked_variants(SOURCE.replace("#define ITEMS 1", "constexpr int ITEMS = 1;"), 6)[1:] == []


class Estimating:
    """Implements what `Judging` asks of a judge: more threads are faster, and 256 of them fail."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        self.asked.append(len(candidates))
        return [None if "BLOCK 256" in c.source else 100.0 - c.source.count("ITEMS 4") for c in candidates]


def test_the_model_chooses_among_them_and_is_asked_once(tmp_path: Path) -> None:
    judge, written = Estimating(), Candidate(source=SOURCE, origin="llm: x", parent="p")
    with create_run(tmp_path) as run:
        judging = Judging(task_named("t"), judge, run, Search())  # type: ignore[arg-type]
        tuned = judging.tuned(written, 6)
        assert "#define ITEMS 4" in tuned.source and "BLOCK 256" not in tuned.source.split("ITEMS = 1, 4")[1]
        assert (tuned.origin, tuned.parent) == ("llm: x", "p") and judge.asked == [6]
        assert judging.tuned(written, 6) == tuned and judge.asked == [6]
        assert judging.tuned(written, 0) == written
        assert judging.budget.evaluations == 0
        name = run.name
    with open_run(tmp_path, name, writing=True) as run:
        again = Judging(task_named("t"), judge, run, Search())  # type: ignore[arg-type]
        assert again.tuned(written, 6) == tuned and judge.asked == [6], "a continued run does not ask again"
