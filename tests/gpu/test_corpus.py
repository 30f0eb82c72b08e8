"""The exploit corpus and the hand-written candidates on a real GPU."""

from pathlib import Path

import pytest

from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.testing.corpus import CORRECT, ROOT, Corpus, metadata

EXPLOITS = sorted((ROOT / "tests" / "exploits").glob("*/*.cu"))
EXPLOITS = [file for file in EXPLOITS if file.parent.name in ("cheats", "honest")]
CANDIDATES = sorted((ROOT / "tests" / "candidates").glob("*.cu"))
CORPUS = Corpus()
OPEN = (ROOT / "tests" / "exploits" / "open.txt").read_text().split()  # known to get through


@pytest.mark.parametrize("file", EXPLOITS, ids=[f"{f.parent.name}/{f.stem}" for f in EXPLOITS])
def test_exploit(judge: DeviceJudge, file: Path, request: pytest.FixtureRequest) -> None:
    if file.stem in OPEN:
        request.applymarker(pytest.mark.xfail(reason="a hole that is known"))
    expected = [word.strip() for word in metadata(file.read_text())["expect"].split("|")]
    outcome = judge.evaluate(*CORPUS.read(file)).outcome
    assert outcome.kind in expected, outcome


@pytest.mark.parametrize("file", CANDIDATES, ids=[file.stem for file in CANDIDATES])
def test_candidate_and_its_planted_error(judge: DeviceJudge, file: Path) -> None:
    task, candidate = CORPUS.read(file)
    assert judge.evaluate(task, candidate).outcome.kind in CORRECT
    planted = judge.evaluate(task, candidate.with_defines({"PLANTED_ERROR": 1}))
    assert planted.outcome.kind not in CORRECT
