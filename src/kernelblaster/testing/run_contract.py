"""Contract that runs (the recorded events of a search) must fulfil wherever they are kept, as a test class to
inherit from.

A subclass provides a fixture `kept`: None for runs in folders, or the `SharedRuns` of an empty store.
"""

from pathlib import Path

import pytest

from kernelblaster.errors import StoreError
from kernelblaster.store.run import (
    Run,
    SharedRuns,
    begin_run,
    create_run,
    discard_unbegun,
    first_event_of,
    open_run,
    run_folders,
)


class RunContract:
    """Tests that runs must pass wherever they are kept; a subclass provides the fixture `kept`."""

    def test_what_was_recorded_is_not_computed_again(self, kept: SharedRuns | None, tmp_path: Path) -> None:
        asked: list[int] = []

        def compute() -> dict[str, object]:
            asked.append(len(asked))
            return {"number": len(asked), "pair": (1, 2)}

        with create_run(tmp_path, kept=kept, task="t") as run:
            assert run.once("guess", "a", compute) == {"number": 1, "pair": [1, 2]}
            assert run.once("guess", "a", compute) == {"number": 1, "pair": [1, 2]}
            assert run.once("guess", "b", compute, lasting=False)["number"] == 2
            run.append("told", words="ünïcode\u2028line")
            identity = run.id
        with open_run(tmp_path, run.name, writing=True) as again:
            assert again.once("guess", "b", compute)["number"] == 2 and len(asked) == 2
            assert again.id == identity and again.events[0].data == {"task": "t"}
            assert [event.kind for event in again.events] == ["created", "guess", "guess", "told"]
            assert again.events[3].data == {"words": "ünïcode\u2028line"}
            again.append("told", words="more")
        with open_run(tmp_path, run.name) as third:
            assert [event.number for event in third.events] == [0, 1, 2, 3, 4]
            with pytest.raises(StoreError, match="for reading only"):
                third.append("told")

    def test_one_process_at_a_time_writes(self, kept: SharedRuns | None, tmp_path: Path) -> None:
        with create_run(tmp_path, kept=kept) as run:
            with pytest.raises(StoreError, match="another process is working on"):
                Run(run.folder, writing=True)
            assert len(Run(run.folder, writing=False).events) == 1
        Run(run.folder, writing=True).close()
        with pytest.raises(StoreError, match="holds something else already"):
            begin_run(run.folder, kept=kept)

    def test_texts_are_kept_by_their_content(self, kept: SharedRuns | None, tmp_path: Path) -> None:
        text = "__global__ void k() { /* ünïcode */ }\n" * 1000
        with create_run(tmp_path, kept=kept) as run, create_run(tmp_path, kept=kept) as other:
            name = run.files.put(text)
            assert run.files.put(text) == name == other.files.put(text)
            assert other.files.get(name) == text
            with pytest.raises(StoreError):
                run.files.get("0" * 32)

    def test_runs_are_found(self, kept: SharedRuns | None, tmp_path: Path) -> None:
        names = []
        for number in range(3):
            with begin_run(tmp_path / f"run-{number}", kept=kept, number=number) as run:
                names.append(run.name)
        assert [folder.name for folder in run_folders(tmp_path)] == names
        with open_run(tmp_path, "last") as last:
            assert last.events[0].data == {"number": 2}
        first = first_event_of(tmp_path / "run-1")
        assert first is not None and first.data == {"number": 1}

    def test_one_in_which_nothing_was_done_is_discarded(
        self, kept: SharedRuns | None, tmp_path: Path
    ) -> None:
        assert discard_unbegun(create_run(tmp_path, kept=kept))
        with create_run(tmp_path, kept=kept) as run:
            run.append("evaluation")
            assert not discard_unbegun(run)
        assert run_folders(tmp_path) == [run.folder]
