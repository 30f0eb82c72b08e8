"""The study of memory with a model: who plays what, what waits for a player, and what its report says."""

import json
from pathlib import Path

import memory_by_model as study_of
import pytest


def begun(folder: Path, seats: int = 12) -> study_of.Study:
    return study_of.plan(folder, seats, study_of.ARMS, len(study_of.PAIRS))


@pytest.mark.parametrize("seats", [6, 7, 12, 16])
def test_no_seat_plays_a_pair_twice_and_none_has_one_arm_alone(tmp_path: Path, seats: int) -> None:
    study = begun(tmp_path, seats)
    assert len(study.searches) == 48 == len({one.name for one in study.searches})
    for seat in range(seats):
        mine = [one for one in study.searches if one.seat == seat]
        assert len({one.pair for one in mine}) == len(mine) >= 48 // seats - 1
        assert len({one.arm for one in mine}) > 1
    assert begun(tmp_path) == study, "a study that was begun stays as it is"
    with pytest.raises(SystemExit, match="as many seats"):
        study_of.plan(tmp_path / "other", 5, study_of.ARMS, 8)


def test_a_search_with_memory_waits_for_its_teacher(tmp_path: Path) -> None:
    study = begun(tmp_path)
    taught = next(one for one in study.searches if one.arm == study_of.WITH)
    assert not study.ready(taught) and study.ready(study.teacher(taught))
    study_of._leave(study, study.teacher(taught), {"judged": [1.0]})
    assert study.ready(taught)


def test_a_player_is_told_what_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = begun(tmp_path)
    mine = [one for one in study.searches if one.seat == 3]
    folders = [
        study.desk(mine[0]) / f"000{n}-{role}-ab" for n, role in enumerate(("initial-writer", "lowerer"))
    ]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "prompt.md").write_text("?")
    assert study_of.unanswered(study, 3) == [folders[1] / "prompt.md"]
    (folders[1] / "answer.json").write_text("{}")
    assert study_of.unanswered(study, 3) == []
    (folders[1] / "problem.md").write_text("no")
    assert study_of.unanswered(study, 3) == [folders[1] / "problem.md"]
    for one in mine:
        study_of._leave(study, one, {"judged": [1.0]})
    (folders[1] / "problem.md").unlink()
    study_of.status(study, 3, 0)
    assert "seat 3 is done" in capsys.readouterr().out


def test_the_report_compares_arms_by_pair(tmp_path: Path) -> None:
    study = begun(tmp_path)
    curves = {"with": [1.0, 4.0], "without": [1.0, None, 2.0, 4.0], "minimal": [1.0, 2.0]}
    for one in study.searches:
        tokens = {"lowerer": {"questions": 2, "tokens": 1000, "largest": 900}}
        study_of._leave(study, one, {"judged": curves.get(one.arm, [1.0]), "outcomes": [], "roles": tokens})
    text = study_of.report(study)
    assert "with over without, 8 tasks: evaluations 0.50 (0.50 to 0.50)" in text
    assert "with over minimal, 8 tasks: evaluations 0.29 (0.29 to 0.29), speed of the best 2.00" in text
    assert "| minimal | 8 | 2.00 (2.00 to 2.00) | 7.00 (7.00 to 7.00) | 1,000 | 1,000 |" in text
    assert "| lowerer | 900 | 14,000 |" in text and "no gain" in text
    assert json.loads((tmp_path / "plan.json").read_text())[0]["arm"] == "teach"
