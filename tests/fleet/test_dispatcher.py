"""Who judges what: homes, losses, and what becomes of a candidate that ends its owners."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.errors import BadTask, DeviceLost
from kernelblaster.fleet import dispatcher as dispatching
from kernelblaster.fleet.desk import AHEAD
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.fleet_judge import WINDOW, FleetJudge
from kernelblaster.fleet.leases import PassingLeases
from kernelblaster.fleet.lines import DirectLine
from kernelblaster.fleet.requests import EvaluateRequest, JudgeChoice, PrepareRequest, ProfileRequest
from kernelblaster.records import Abandoned, Candidate
from kernelblaster.store.database import StoreDatabase
from kernelblaster.store.leases import StoredLeases
from tests.fleet.fakes import TASK, FakeFleet, FakeOwner, task_named

GPU = JudgeChoice("cuda")
MACHINE = JudgeChoice("emulated", "h200")
Opened = Callable[..., Dispatcher]


@pytest.fixture
def opened() -> Iterator[Opened]:
    running: list[Dispatcher] = []

    def opening(fleet: FakeFleet, **more: Any) -> Dispatcher:
        running.append(Dispatcher(fleet, more.pop("leases", PassingLeases()), **more))
        return running[-1]

    yield opening
    for one in running:
        one.close()


def evaluating(source: str, choice: JudgeChoice = GPU, task: str = "a") -> EvaluateRequest:
    return EvaluateRequest(choice, task_named(task), Candidate(source=source))


def profiling(source: str, task: str = "a") -> ProfileRequest:
    return ProfileRequest(GPU, task_named(task), (Candidate(source=source),), "quick")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_a_search_stays_with_one_device(opened: Opened) -> None:
    one = opened(FakeFleet(FakeOwner("first"), FakeOwner("second")))
    until(lambda: len(one.devices) == 2)
    for name in "abcd":
        asked = [one.submit(evaluating(str(n), task=name), name) for n in range(20)]
        assert len({answer.result(9)[0] for answer in asked}) == 1
    where = {name: one.submit(evaluating("x", task=name), name).result(9)[0] for name in "abcd"}
    assert sorted(where.values()) == ["first", "first", "second", "second"]


def test_models_of_gpus_are_kept_apart(opened: Opened) -> None:
    fleet = FakeFleet(FakeOwner("h", gpu="h200"), FakeOwner("a", gpu="a100"))
    one = opened(fleet)
    until(lambda: len(one.devices) == 2)
    for gpu, name in (("h200", "h"), ("a100", "a")):
        asked = [one.submit(evaluating(f"{gpu}{n}", JudgeChoice("cuda", gpu)), gpu) for n in range(5)]
        assert {answer.result(9)[0] for answer in asked} == {name}
    by_architecture = {source[:4]: architecture for source, architecture in fleet.compilers.compiled}
    assert by_architecture == {"h200": "sm_90a", "a100": "sm_80"}
    unnamed = [one.submit(evaluating(str(n), task=str(n)), n) for n in range(4)]
    assert {answer.result(9)[0] for answer in unnamed} == {"h"}  # the first that joined: one model for all
    unknown = one.submit(evaluating("x", JudgeChoice("cuda", "b200")), "z")
    assert not unknown.done()  # until such a device joins
    fleet.join(FakeOwner("b", gpu="b200"))
    assert unknown.result(9)[0] == "b"


def test_modelled_times_may_come_from_any_machine(opened: Opened) -> None:
    owners = [FakeOwner(name, "emulated") for name in "xyz"]
    for owner in owners:
        owner.held = True
    one = opened(FakeFleet(*owners))
    until(lambda: len(one.devices) == 3)
    asked = [one.submit(evaluating(str(n), MACHINE), "search") for n in range(9)]
    until(lambda: all(len(owner.asked) == 2 for owner in owners))  # its device, and one candidate
    for owner in owners:
        owner.held = False
        owner.let_go()
    assert [answer.result(9)[1] for answer in asked] == [str(n) for n in range(9)]


def test_what_was_lost_is_done_again_elsewhere(opened: Opened) -> None:
    """The task moves with it: the other device prepares it, and measures its baseline, anew."""
    first, second = FakeOwner("first"), FakeOwner("second")
    fleet = FakeFleet(first, second, replacements=0)
    heard: list[str] = []
    one = opened(fleet, say=heard.append)
    until(lambda: len(one.devices) == 2)
    for owner in (first, second):
        owner.held = True
    asked = [one.submit(evaluating(str(n)), "search") for n in range(3)]
    until(lambda: len(first.asked) + len(second.asked) == 3)
    at_work, other = (first, second) if len(first.asked) == 2 else (second, first)
    other.held = False
    at_work._waiting.clear()
    at_work.asked.clear()
    one._mail.put(lambda: one._lose(one._homes["search"][1], "the node is gone"))
    assert [answer.result(9) for answer in asked] == [(other.name, str(n)) for n in range(3)]
    assert heard == ["a device was lost (the node is gone)"] and not at_work.asked


def test_a_candidate_that_ends_its_owners_is_abandoned_and_named(opened: Opened) -> None:
    fleet = FakeFleet(FakeOwner("one"))
    heard: list[str] = []
    one = opened(fleet, say=heard.append)
    bad = Candidate(source="kills")
    asked = [one.submit(evaluating(source), "search") for source in ("good", "kills", "better")]
    assert asked[0].result(9)[1] == "good" and asked[2].result(9)[1] == "better"
    outcome = asked[1].result(9).outcome
    assert (
        isinstance(outcome, Abandoned) and bad.code in outcome.reason and "one' was ended" in outcome.reason
    )
    assert fleet.replaced == ["one", "one'"]
    assert any(bad.code in words for words in heard)
    again = one.submit(evaluating("kills"), "another search").result(9).outcome
    assert isinstance(again, Abandoned) and len(fleet.replaced) == 2  # not even tried


def test_a_candidate_that_ends_its_compilers_is_abandoned(opened: Opened, tmp_path: Path) -> None:
    fleet = FakeFleet(FakeOwner("one"))
    stored = StoredLeases(StoreDatabase(tmp_path / "leases.db"), "search")
    asked = opened(fleet, leases=stored).submit(evaluating("crashes"), "search")
    assert "the compiler was ended" in asked.result(9).outcome.reason
    assert len(fleet.compilers.compiled) == 2 and stored.lost_works()[0].losses == 2


def test_work_has_no_part_in_the_loss_of_a_process_that_had_not_begun_it(
    opened: Opened, tmp_path: Path
) -> None:
    """Processes that ended while they had nothing to do are noticed when they are asked next."""
    owner = FakeOwner("one")
    owner.is_dead, owner.dead_successors = True, 2
    fleet = FakeFleet(owner)
    stored = StoredLeases(StoreDatabase(tmp_path / "leases.db"), "search")
    one = opened(fleet, leases=stored)
    assert one.submit(PrepareRequest(GPU, task_named("a")), "search").result(9) == ("one'''", "a")
    assert fleet.replaced == ["one", "one'", "one''"] and stored.lost_works() == []


def test_a_task_that_ends_its_owners_is_refused(opened: Opened) -> None:
    fleet = FakeFleet(FakeOwner("one"))
    with pytest.raises(BadTask, match=r"kills: .* 2 processes were lost"):
        opened(fleet).submit(PrepareRequest(GPU, task_named("kills")), "search").result(9)
    assert len(fleet.replaced) == 2


def test_without_any_device_requests_fail(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "TICK_S", 0.02)
    one = opened(FakeFleet(FakeOwner("one"), replacements=0))
    asked = one.submit(evaluating("kills"), "search")
    with pytest.raises(DeviceLost, match="no such device: all were lost"):
        asked.result(9)
    monkeypatch.setattr(dispatching, "PATIENCE_S", 0.1)
    empty = opened(FakeFleet())
    with pytest.raises(DeviceLost, match=r"none has joined for 0\.1 s"):
        empty.submit(evaluating("x"), "search").result(9)


def test_an_error_of_the_leases_fails_what_is_asked_then_and_later(opened: Opened) -> None:
    class Broken(PassingLeases):
        def begin(self, work: str, about: str, owner: str) -> int:
            raise DeviceLost("the database is gone")

    one = opened(FakeFleet(FakeOwner("one")), leases=Broken())
    for _ in range(2):
        with pytest.raises(DeviceLost, match="the database is gone"):
            one.submit(evaluating("x"), "search").result(9)


def test_an_unhealthy_device_is_refused(opened: Opened) -> None:
    hot, cool = FakeOwner("hot"), FakeOwner("cool")
    hot.unhealthy = True
    fleet = FakeFleet(hot, cool)
    heard: list[str] = []
    one = opened(fleet, say=heard.append)
    asked = [one.submit(evaluating(str(n), task=str(n)), n) for n in range(4)]
    assert {answer.result(9)[0] for answer in asked} == {"cool"}
    assert fleet.refused == [("hot", "unhealthy: 95 °C")]
    assert heard == ["hot is not used: unhealthy: 95 °C"]
    assert ("cool", f"evaluate candidate {Candidate(source='0').code} of 0") in fleet.notes


def test_one_that_gives_no_answer_is_given_up(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatching, "TICK_S", 0.02)
    monkeypatch.setattr(dispatching, "ANSWER_S", 0.1)
    silent = FakeOwner("silent")
    silent.held = True
    fleet = FakeFleet(silent)
    asked = opened(fleet).submit(evaluating("x"), "search")
    assert asked.result(9) == ("silent'", "x")
    silent.let_go()  # too late: nobody waits for it
    assert fleet.replaced == ["silent"]


def test_profiles_wait_for_each_other(opened: Opened) -> None:
    owner = FakeOwner("one")
    one = opened(FakeFleet(owner))
    for name in "abcdef":
        one.submit(evaluating("first", task=name), name).result(9)
    owner.held = True
    busy = one.submit(evaluating("long"), "a")
    until(lambda: len(owner.asked) == 8)
    profiles = [one.submit(profiling(f"{name}", name), name) for name in "bc"]
    other = one.submit(evaluating("next", task="d"), "d")
    until(one._mail.empty)
    owner.let_go()
    assert busy.result(9)[1] == "long"
    until(lambda: len(owner.asked) == 9)
    assert owner.asked[-1][0].candidate.source == "next"  # type: ignore[union-attr] # two of six profiles wait
    owner.held = False
    owner.let_go()
    assert other.result(9)[1] == "next"
    assert [answer.result(9)[1] for answer in profiles] == ["b", "c"]
    assert len(owner.asked[-1]) == 2  # nothing else to do: together


def test_a_profile_that_fails_does_not_take_others_with_it(opened: Opened) -> None:
    owner = FakeOwner("one")
    one = opened(FakeFleet(owner))
    until(lambda: len(one.devices) == 1)
    owner.held = True
    busy = one.submit(evaluating("long"), "z")
    until(lambda: len(owner.asked) == 2)
    asked = [one.submit(profiling(source, source), source) for source in ("good", "fails", "fine")]
    until(one._mail.empty)
    owner.held = False
    owner.let_go()
    busy.result(9)
    assert asked[0].result(9)[1] == "good" and asked[2].result(9)[1] == "fine"
    with pytest.raises(RuntimeError, match="it fails"):
        asked[1].result(9)
    assert [len(requests) for requests in owner.asked] == [1, 1, 3, 1, 1, 1]
    assert one.busy.keys() == {"evaluate", "profile"}


def test_who_left_gets_nothing_more(opened: Opened) -> None:
    owner = FakeOwner("one")
    owner.held = True
    one = opened(FakeFleet(owner))
    for client in ("gone", "here"):
        for number in range(3):
            one.submit(evaluating(f"{client}{number}"), client)
    until(lambda: len(owner.asked) == 2)
    one.leave("gone")
    owner.held = False
    last = one.submit(evaluating("last"), "here")
    until(one._mail.empty)
    owner.let_go()
    assert last.result(9)[1] == "last"
    sources = [requests[0].candidate.source for requests in owner.asked[1:]]  # type: ignore[union-attr]
    assert sources == ["gone0", "here0", "here1", "here2", "last"]


def test_ten_thousand_evaluations_are_compiled_little_by_little(opened: Opened) -> None:
    owner = FakeOwner("one")
    fleet = FakeFleet(owner)
    one = opened(fleet)
    with closing(DirectLine(one)) as line:
        judge = FleetJudge.open(line, GPU)
        jobs = [(TASK, Candidate(source=str(number))) for number in range(10_000)]
        most = 0
        for number, answer in enumerate(judge.evaluate_many(jobs)):
            assert answer == ("one", str(number))  # type: ignore[comparison-overlap]
            most = max(most, len(one._open), len(fleet.compilers.compiled) - number)
        assert most <= WINDOW + AHEAD + fleet.compilers.slots
    assert not one._open


def test_many_idle_devices_do_not_slow_down_requests(opened: Opened) -> None:
    """They are looked at several times for each request, but not each of them for each other one."""

    def processor_s(devices: int) -> float:
        one = opened(FakeFleet(*(FakeOwner(f"GPU {number}") for number in range(devices))))
        until(lambda: len(one.devices) == devices)
        asked = [evaluating(str(number)) for number in range(200)]
        start = time.process_time()
        for answer in [one.submit(request, "search") for request in asked]:
            answer.result(60)
        return time.process_time() - start

    assert processor_s(400) < 20 * processor_s(4)
