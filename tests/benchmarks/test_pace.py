"""The figures of a bench are right while its searches are still going on."""

import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pace as pace_module
from pace import Pace, Watch, spread

from kernelblaster.bench.searching import News
from kernelblaster.store.run import create_run


def test_first_entries_are_spread():
    assert spread(list(range(20)))[:3] == (0, 8, 16)
    assert sorted(spread(list(range(20)))) == list(range(20))


def test_page_of_a_search_that_goes_on(tmp_path: Path, monkeypatch) -> None:
    now = 1000.0
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(time=lambda: now))
    watch = Watch()
    bench = SimpleNamespace(folder=tmp_path, device="a GPU")
    figures = Pace(bench, [SimpleNamespace(name=name) for name in "ab"], watch, tmp_path / "pace.md")
    watch(News("began", "bench/tasks/a/0"))
    now = 1010.0
    watch(News("began", "bench/tasks/b/0"))
    watch(News("busy", "", busy=Counter(evaluate=30.0)))
    with create_run(tmp_path / "runs", job="bench/tasks/a/0") as run:
        event = run.append("evaluation", evaluation={})
        run.append("evaluation", evaluation={})
        began = watch.began["bench/tasks/a/0"] = event.at - 5.0
        assert abs(time.time() - began) < 60
        now = 1090.0
        figures.begun = 1000.0
        text = "\n".join(figures.write("going on"))
    assert (tmp_path / "pace.md").read_text() == text + "\n"
    assert "2 candidates of 1 tasks are judged" in text
    assert "| evaluations a minute, from the start | 40 | 1.3 |" in text
    assert "| 60% | 33% (verdicts 33%) |" in text
    assert "5 at most, 5 in the median; 1 later than 60" in text
    assert "Without a verdict yet, for s: tasks/b 80." in text
    assert "| 90 | 2 | 1 | 33% |" in text
    assert "| tasks/a |  |  |  |  | 2 |  | 5 | not ended |" in text
