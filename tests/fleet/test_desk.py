"""Which request a device gets next."""

import time

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.fleet import desk as desks
from kernelblaster.fleet.desk import Desk, Pending
from kernelblaster.fleet.requests import (
    DeviceFacts,
    EvaluateRequest,
    JudgeChoice,
    PrepareRequest,
    ProfileRequest,
    Request,
)
from kernelblaster.records import Candidate
from tests.fleet.fakes import FakeOwner, task_named

GPU = JudgeChoice("cuda")


def made() -> Desk:
    return Desk(FakeOwner("first"), DeviceFacts("GPU", gpu_specs()["h200"], False))


def ready(desk: Desk, client: str, request: Request) -> Pending:
    pending = Pending(request, client, "", compiled="compiled")
    desk.clients.add(client)
    desk.add(pending)
    return pending


def evaluation(task: str) -> EvaluateRequest:
    return EvaluateRequest(GPU, task_named(task), Candidate(source="x"))


def answered(desk: Desk, seconds: float) -> None:
    desk.began = time.monotonic() - seconds
    desk.charge()
    desk.at_work = []


def test_a_slow_search_does_not_keep_others_waiting() -> None:
    desk = made()
    slow = [ready(desk, "slow", evaluation("a")) for _ in range(3)]
    assert desk.next_to_answer() == [slow[0]]
    answered(desk, 30.0)
    other = [ready(desk, "other", evaluation("b")) for _ in range(3)]
    for one in other:
        assert desk.next_to_answer() == [one]
        answered(desk, 1.0)
    assert desk.next_to_answer() == [slow[1]]


def test_a_new_task_of_the_same_client_begins_anew() -> None:
    desk = made()
    first = ready(desk, "one", evaluation("a"))
    assert desk.next_to_answer() == [first]
    answered(desk, 30.0)
    ready(desk, "two", evaluation("b"))
    desk.next_to_answer()
    answered(desk, 2.0)
    waiting = ready(desk, "two", evaluation("b"))
    new = ready(desk, "one", PrepareRequest(GPU, task_named("c")))
    assert desk.next_to_answer() == [new]
    assert desk.next_to_answer() == [waiting]


def test_what_a_client_used_is_forgotten_with_it() -> None:
    desk = made()
    ready(desk, "one", evaluation("a"))
    desk.next_to_answer()
    answered(desk, 30.0)
    desk.forget("one")
    assert not desk.used and not desk.clients


def test_a_profile_waits_for_others_but_not_for_long() -> None:
    desk = made()
    for client in "abcdef":
        desk.clients.add(client)
    profile = ready(desk, "a", ProfileRequest(GPU, task_named("a"), (Candidate(source="x"),), "quick"))
    evaluations = [ready(desk, "b", evaluation("b")) for _ in range(2)]
    assert desk.next_to_answer() == [evaluations[0]]
    profile.since -= desks.PATIENCE_S + 1
    assert desk.next_to_answer() == [profile]
    assert desk.next_to_answer() == [evaluations[1]]


def test_a_long_queue_does_not_slow_down_who_takes_from_it() -> None:
    """The client with the fewest candidates ahead has its turn, its oldest one first."""

    def processor_s(queued: int) -> float:
        desk = made()
        request = evaluation("a")
        for number in range(queued):
            desk.add(Pending(request, number % 4, ""))
        start = time.process_time()
        for number in range(200):
            taken = desk.next_to_compile()
            assert taken is not None and taken.client == number % 4
            if number % 4 == 3:
                desk.compiling.clear()
        return time.process_time() - start

    assert processor_s(20_000) < 20 * processor_s(400)
    desk = made()
    for number in range(6):
        desk.add(Pending(evaluation("a"), number % 2, str(number)))
    assert [one.work for one in desk.drain()] == list("012345") and desk.load == 0
