"""One judge for several processes: answers in order, errors where they belong, nothing for those who left."""

import multiprocessing
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.specs import gpu_specs
from kernelblaster.errors import BadTask
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.judge.shared import JudgeServer, SharedJudge, _Job
from kernelblaster.records import Candidate, Task

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["kernelblaster.api"])  # torch is imported once for all of them


class Answering(DeviceJudge):
    """Tells what it was asked, at once."""

    def compile(self, task: Task, candidate: Candidate) -> Any:
        return candidate.source

    def finish(self, task: Task, candidate: Candidate, binary: Any, started: float | None = None) -> Any:
        return binary

    def prepare(self, task: Task) -> Any:
        if task.name != "core/level1/relu":
            raise BadTask(f"{task.name}: unfit.")
        return "fit", "floor"

    def profile(self, task: Task, candidates: Any, *, depth: str = "detailed") -> Any:
        if candidates[0].source == "bad":
            raise BadTask("not to be profiled.")
        if candidates[0].source == "broken":
            raise RuntimeError("an error of this program")
        return [f"{c.source}, {depth}" for c in candidates]

    def profile_many(self, wanted: Any, *, depth: str = "detailed") -> Any:
        return [self.profile(*one, depth=depth) for one in wanted]


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    device: Any = SimpleNamespace(name="fake", spec=gpu_specs()["h200"], modelled=False)
    yield JudgeServer(Answering(device, EvaluationOptions(profile=True)))


def ask(judge: SharedJudge, mark: str, said: Any) -> None:
    task = load_task("core/level1/relu")
    jobs = [(task, Candidate(source=f"{mark}{number}")) for number in range(5)]
    said.put((mark, list(judge.evaluate_many(jobs)), judge.prepare(task)))
    said.put((mark, judge.profile(task, [jobs[0][1]], depth="quick")))
    try:
        judge.prepare(load_task("core/level1/gelu"))
    except BadTask as error:
        said.put((mark, str(error), None))
    judge.close()


def leave(judge: SharedJudge) -> None:
    judge._connection.send(("evaluate", load_task("core/level1/relu"), Candidate(source="unheard")))


def served(server: JudgeServer, *processes: Any) -> None:
    for process in processes:
        process.start()
    server.serve()
    for process in processes:
        process.join()


def test_every_process_gets_its_own_answers_in_order(server: JudgeServer) -> None:
    said = context.Queue()
    served(server, *(context.Process(target=ask, args=(server.connect(), mark, said)) for mark in "ab"))
    found = [said.get(timeout=60) for _ in range(6)]
    for mark in "ab":
        evaluated, profiled, refused = [row for row in found if row[0] == mark]
        assert evaluated[1] == [f"{mark}{number}" for number in range(5)]
        assert evaluated[2] == ("fit", "floor")
        assert profiled[1] == [f"{mark}0, quick"]
        assert refused[1] == "core/level1/gelu: unfit."


class Client:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def send(self, answer: Any) -> None:
        self.told.append(answer)


def test_profiles_wait_for_each_other(server: JudgeServer) -> None:
    clients: list[Any] = [Client() for _ in range(6)]
    server._clients = clients
    profiles = [
        _Job(c, ("profile", None, [Candidate(source=str(n))], "quick")) for n, c in enumerate(clients)
    ]
    prepare = _Job(clients[5], ("prepare", None))
    server._waiting = deque([profiles[0], profiles[1], prepare])
    assert server._next() == [prepare]  # two of six, and there is something else to do
    server._waiting = deque([profiles[0], profiles[1]])
    assert server._next() == profiles[:2]
    server._waiting = deque([prepare, *profiles[:4]])
    assert server._next() == profiles[:4]
    detailed = _Job(clients[5], ("profile", None, [Candidate(source="5")], "detailed"))
    server._waiting = deque([*profiles[:3], detailed])
    assert server._next() == profiles[:3]  # of one depth
    server._answer_all(profiles[:4])
    assert [client.told for client in clients[:4]] == [[[f"{number}, quick"]] for number in range(4)]


def test_a_profile_that_fails_does_not_take_others_with_it(server: JudgeServer) -> None:
    clients: list[Any] = [Client(), Client(), Client()]
    sources = ("good", "bad", "broken")
    server._answer_all(
        [
            _Job(client, ("profile", None, [Candidate(source=source)], "quick"))
            for client, source in zip(clients, sources, strict=True)
        ]
    )
    assert clients[0].told == [["good, quick"]]
    assert [str(answer) for answer in clients[1].told] == ["not to be profiled."]
    assert "an error of this program" in str(clients[2].told[0])
    assert set(server.busy) == {"profile"}


def test_a_process_that_ends_is_forgotten(server: JudgeServer) -> None:
    served(server, context.Process(target=leave, args=(server.connect(),)))
