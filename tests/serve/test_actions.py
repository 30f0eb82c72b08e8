"""What a page may ask of a run, and that nothing is done by accident."""

import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kernelblaster.serve import resuming
from kernelblaster.serve.dashboard import Dashboard
from kernelblaster.store.run import open_run
from kernelblaster.store.steering import read_commands
from tests.report.made_run import made_run
from tests.serve.site import client_of, dashboard_of

OUTCOMES = [("Slower", 125.0), ("Accepted", 50.0)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_run(tmp_path / "r", OUTCOMES, ended=False)


@pytest.fixture
def dashboard(folder: Path) -> Dashboard:
    return dashboard_of(folder.parent)


@pytest.fixture
def client(dashboard: Dashboard) -> TestClient:
    return client_of(dashboard)


def test_a_search_is_steered_through_the_public_api(client: TestClient, folder: Path) -> None:
    asked = {"budget": 40, "pin": ["a"], "forbid": ["b"], "release": ["c"], "note": " hm ", "standing": True}
    reply = client.post("/runs/r/steer", json=asked)
    assert reply.status_code == 200 and reply.json()["done"].startswith(
        "Asked: budget of 40 candidates; pin a"
    )
    commands, _ = read_commands(folder)
    assert [(one.action.kind, one.by) for one in commands] == [
        (kind, "dashboard") for kind in ("budget", "pin", "forbid", "release", "note")
    ]
    assert commands[-1].action.text == "hm" and commands[-1].action.standing  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"budget": 0},
        {"budget": -1},
        {"budget": 1.5},
        {"budget": True},
        {"budget": "40"},
        {"budget": 10**12},
        {"seconds": "inf"},
        {"pin": "a"},
        {"pin": [1]},
        {"pin": ["<script>"]},
        {"pin": ["a"] * 100},
        {"note": 7},
        {"note": "x" * 3000},
        {"note": "   "},
        {"confirm": "r"},
        {"__proto__": {}},
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_asked(
    client: TestClient, folder: Path, asked: object
) -> None:
    reply = client.post("/runs/r/steer", json=asked)
    assert reply.status_code == 409 and reply.json()["error"]
    assert read_commands(folder) == ([], [])


def test_stopping_and_resuming_need_to_be_confirmed(client: TestClient, folder: Path) -> None:
    for name in ("stop", "resume"):
        for data in ({}, {"confirm": True}, {"confirm": "other"}, {"confirm": "r "}):
            reply = client.post(f"/runs/r/{name}", json=data)
            assert reply.status_code == 409 and "Not confirmed" in reply.json()["error"]
    assert read_commands(folder) == ([], [])


def test_a_search_is_asked_to_stop(client: TestClient, folder: Path) -> None:
    assert client.post("/runs/r/stop", json={"confirm": "r"}).status_code == 409, "nobody works on it"
    with open_run(folder.parent, "r", writing=True):
        reply = client.post("/runs/r/stop", json={"confirm": "r"})
    assert reply.status_code == 200 and [one.action.kind for one in read_commands(folder)[0]] == ["stop"]


def test_a_run_is_resumed_in_a_process_of_its_own_and_what_went_wrong_is_said(
    client: TestClient, dashboard: Dashboard, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process here stands for the command: it says how it was called, and fails."""
    program = tmp_path / "program"
    waits = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    program.write_text(f'#!/bin/sh\n{waits}\necho "error: called with $* <b>" >&2\nexit 2\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(resuming, "ENDING_S", 0.05)
    reply = client.post("/runs/r/resume", json={"confirm": "r", "usd": 2.5, "tokens": 900})
    assert reply.status_code == 200 and "goes on with it" in reply.json()["done"]
    assert "getting ready" in client.get("/runs/r").text and dashboard.resumed.running == 1
    assert client.post("/runs/r/resume", json={"confirm": "r"}).status_code == 409, "once is enough"
    (tmp_path / "go").touch()
    until = time.monotonic() + 10
    while dashboard.resumed.running and time.monotonic() < until:
        time.sleep(0.05)
    text = client.get("/runs/r").text
    assert f"called with -m kernelblaster resume {folder} --json --usd 2.5 --tokens 900 &lt;b&gt;" in text
    assert "exit code 2" in text


def test_one_that_was_just_stopped_is_resumed_at_once(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its process has let go of the run, and takes long to end."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 2\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    assert client.post("/runs/r/resume", json={"confirm": "r"}).status_code == 200
    with open_run(folder.parent, "r", writing=True):
        assert "getting ready" not in client.get("/runs/r").text
    begun = time.monotonic()
    assert client.post("/runs/r/resume", json={"confirm": "r"}).status_code == 200
    assert time.monotonic() - begun < 1.5


def test_one_that_is_at_work_is_not_resumed(client: TestClient, folder: Path) -> None:
    with open_run(folder.parent, "r", writing=True):
        reply = client.post("/runs/r/resume", json={"confirm": "r"})
    assert reply.status_code == 409 and "works on it already" in reply.json()["error"]


def test_actions_on_what_is_not_there(client: TestClient) -> None:
    for name in ("stop", "steer", "resume"):
        assert client.post(f"/runs/none/{name}", json={"confirm": "none"}).status_code == 404


def test_searches_that_ended_leave_no_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho why >&2\nexit $(basename $4)\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    folders = [made_run(tmp_path / "runs" / f"{code}", OUTCOMES, ended=False) for code in (0, 1, 2, 3, 4)]
    runs = resuming.ResumedRuns()
    open_files = lambda: len(list(Path("/proc/self/fd").iterdir()))  # noqa: E731
    before = open_files()
    for folder in folders:
        runs.start(folder)
        until = time.monotonic() + 10
        while runs.running and time.monotonic() < until:
            time.sleep(0.01)
    assert [runs.notice(folder)[:33] for folder in folders] == [
        "",
        "",
        *(f"Resuming failed (exit code {code}). wh" for code in (2, 3, 4)),
    ]
    assert runs.notice(folders[3]).endswith("why") and open_files() == before
