"""Recording survives what one variant does; ranks, pairs and the report say what they claim."""

import json
from types import SimpleNamespace

import model
import pytest
from variants import FOLDER, read_variants

from kernelblaster.errors import DeviceLost
from kernelblaster.records import Evaluation, Incorrect, Slower, Timing
from kernelblaster.records.outcome import Speedup


def evaluation(outcome, timing=None):
    return Evaluation(task="t", candidate="c", device="d", outcome=outcome, timing=timing, seconds=1)


def slower(candidate_us):
    speedup = Speedup(estimate=0.5, low=0.4, high=0.625, confidence=0.99)
    timing = Timing(
        baseline="eager",
        baseline_us=candidate_us / 2,
        candidate_us=candidate_us,
        speedup=speedup,
        samples=8,
        candidate_wall_us=candidate_us,
        candidate_activity_us=candidate_us,
        floor_us=1,
        seconds=1,
    )
    return evaluation(Slower(speedup=speedup), timing)


class Judge:
    """Answers from a list; an exception among the answers is raised."""

    device = SimpleNamespace(name="a GPU", spec=SimpleNamespace(architecture="sm_90a"))

    def __init__(self, *answers):
        self._answers = iter(answers)

    def evaluate(self, task, candidate):
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def row(title, task, real_us, family="f"):
    return model.Measured(title, {}, "", task, family, "Slower", "", real_us, real_us, real_us, 8, 1.0)


def pair(title, task, real_us, model_us, family="f"):
    return model.Pair(row(title, task, real_us, family), real_us, model_us)


def test_recording_goes_on_after_a_failure(tmp_path, compiler):
    kernels = read_variants(FOLDER / "swish_runs.cu")
    out = tmp_path / "new" / "variants.json"
    wrong = evaluation(Incorrect(reason="wrong values", evidence="everywhere"))
    judge = Judge(slower(100.0), DeviceLost("gone"), wrong, slower(50.0))
    rows = model.record(judge, kernels, out, limit_s=1000)
    assert [r.outcome for r in rows] == ["Slower", "DeviceLost", "Incorrect", "Slower"]
    stored = json.loads(out.read_text())
    assert stored["device"] == "a GPU"
    assert [r["candidate_us"] for r in stored["variants"]] == [100.0, None, None, 50.0]
    assert stored["variants"][0]["low_us"] == pytest.approx(80)
    assert stored["variants"][0]["high_us"] == pytest.approx(125)
    assert [model.Measured(**r) for r in stored["variants"]] == rows


def test_recording_stops_at_its_limit(tmp_path, compiler):
    kernels = read_variants(FOLDER / "swish_runs.cu")
    rows = model.record(Judge(slower(1.0)), kernels, tmp_path / "v.json", limit_s=0)
    assert len(rows) == 1


def test_rank_correlation():
    assert model.spearman([1, 2, 3, 4], [10, 20, 30, 1000]) == pytest.approx(1)
    assert model.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert model.spearman([1, 1, 2], [5, 5, 9]) == pytest.approx(1)
    assert model.spearman([1, 2], [1, 2]) is None
    assert model.spearman([1, 1, 1], [1, 2, 3]) is None


def test_only_pairs_of_one_task_that_differ_count():
    pairs = [pair("a", "t", 100, 10), pair("b", "t", 110, 5), pair("c", "t", 200, 8), pair("d", "u", 900, 1)]
    assert model.named(pairs) == (1, 2)  # b < c is named, a < c is not; a and b are too close


def test_report_has_every_family_and_variant():
    pairs = [pair("a.cu", "t", 100, 50, "one"), pair("b.cu", "t", 200, 100, "two")]
    text = model.report("a GPU", pairs, ["- c: not modelled"])
    assert "| all | 2 |  | 1 | 100 % | 2.00 | 2.00 | 0.50 |" in text
    assert "| one | 1 |" in text and "| two | 1 |" in text
    assert "| a | t | 100.0 | 50.0 | 0.50 |" in text
    assert "- c: not modelled" in text
