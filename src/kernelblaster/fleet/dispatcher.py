"""Hands the requests of many searches to the processes that own a fleet's devices.

All requests of a search go to one device, so that its times are comparable. If that device is lost, the
search moves to another one, where the task is prepared and its baseline measured again. Requests that were at
work when a process was lost are sent once more; a candidate with which a process is lost twice gets the
outcome `Abandoned`.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from kernelblaster.devices.emulated import DEFAULT_GPU
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.fleet.abandoned import abandoned_answer
from kernelblaster.fleet.desk import Desk, Pending
from kernelblaster.fleet.leases import Leases
from kernelblaster.fleet.owner import CompiledLost, Fleet, Owner, OwnerLost
from kernelblaster.fleet.requests import (
    KINDS,
    DescribeRequest,
    DeviceFacts,
    EvaluateRequest,
    JudgeChoice,
    Request,
    described,
    work_of,
)

LOSSES = 2  # of owners with the same work, after which that is abandoned
PATIENCE_S = 120.0  # seconds without any device, after which requests fail
ANSWER_S = 1800.0  # seconds for one answer: every stage of judging has a shorter limit of its own
TICK_S = 1.0

Say = Callable[[str], None]


class Dispatcher:
    """Takes the requests of many searches, and has them answered by the owners of a fleet's devices (the
    processes that have them). It starts the fleet when it is made, and ends it when it is closed. `leases`
    count how often a device's process was lost with a piece of work. `say` is called with messages for
    people. `busy` has the seconds that devices were in use, by kind of request. Methods may be called from
    any thread."""

    def __init__(self, fleet: Fleet, leases: Leases, say: Say = lambda words: None) -> None:
        self._fleet = fleet
        self._leases = leases
        self._say = say
        self._desks: list[Desk] = []
        self._homes: dict[Hashable, tuple[str, Desk]] = {}
        self._homeless: deque[Pending] = deque()
        self._model: str | None = None
        self._open: set[Pending] = set()
        self._compiling = 0
        self._without_since = time.monotonic()
        self._over: Exception | None = None
        self._mail: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.busy: Counter[str] = Counter()
        self._thread = Thread(target=self._run, daemon=True, name="dispatcher")
        self._thread.start()

    # For clients

    def submit(self, request: Request, client: Hashable) -> "Future[Any]":
        """Queues a request and returns a future for its answer; the future raises the KernelBlasterError that
        says why there is none. `client` is any hashable value that identifies who asks. A client searches one
        task after another, and its requests about one task go to one device."""
        pending = Pending(request, client, work_of(request))
        self._open.add(pending)
        self._mail.put(partial(self._queue, pending))
        if self._over is not None:
            _fail(pending, self._over)
        return pending.answer

    def leave(self, client: Hashable) -> None:
        """Forgets `client`, who sends no further requests: those of its requests that no device has begun are
        dropped."""
        self._mail.put(partial(self._drop, client))

    @property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """Descriptions of the devices of the fleet that can be used now."""
        return tuple(desk.facts for desk in self._desks)

    def close(self) -> None:
        """End the fleet; requests that are not answered fail."""
        self._mail.put(None)
        self._thread.join()

    # The rest is called in the dispatcher's own thread only.

    def _run(self) -> None:
        """Body of the dispatcher's thread: handle messages until `close`. An error that is no request's fault
        makes all requests fail."""
        over: Exception = DeviceLost("the fleet was closed.")
        try:
            self._fleet.start(lambda owner: self._mail.put(partial(self._welcome, owner)))
            ticked = time.monotonic()
            while (handle := self._next_message()) is not None:
                handle()
                if time.monotonic() - ticked > TICK_S:
                    self._tick()
                    ticked = time.monotonic()
        except Exception as error:
            over = error
        finally:
            self._over = over
            with suppress(KernelBlasterError):  # then it counts as lost
                self._release_all()
            self._fleet.close()
            for pending in list(self._open):
                _fail(pending, over)

    def _release_all(self) -> None:
        """Record that requests on which devices are working were given back, not lost with their device: this
        dispatcher ends in order."""
        for desk in self._desks:
            for pending in desk.at_work:
                self._leases.release(pending.work)

    def _next_message(self) -> Callable[[], None] | None:
        """The next message, as a function to call; one that does nothing if none came for TICK_S seconds;
        None to stop."""
        try:
            return self._mail.get(timeout=TICK_S)
        except Empty:
            return lambda: None

    def _tick(self) -> None:
        """Called about once a second: fails requests for which no device comes, and gives up a device that
        has not answered for ANSWER_S seconds."""
        if self._homeless:
            self._give_up_without_devices()
        for desk in list(self._desks):
            if desk.at_work and time.monotonic() - desk.began > ANSWER_S:
                self._lose(desk, f"{desk.owner.name}: gave no answer for {ANSWER_S:g} s")

    # Devices come and go

    def _welcome(self, owner: Owner) -> None:
        """Ask a new owner (a process that has a device) to open its device and describe it. The device is
        used once that is answered."""
        choice = JudgeChoice(owner.kind, DEFAULT_GPU if owner.kind == "emulated" else None)
        asked = owner.ask([DescribeRequest(choice, healthy=self._fleet.demands_health)])
        asked.add_done_callback(lambda done: self._mail.put(partial(self._install, owner, done)))

    def _install(self, owner: Owner, done: "Future[list[Any]]") -> None:
        """Begin to use the device of an owner (the process that has it), which has answered with the device's
        description (`done`). If the owner failed, another is started; if it says that the device cannot be
        used, the device is left out."""
        error = done.exception()
        if error is not None:
            self._fleet.replace(owner, str(error), fruitful=False)
            return
        facts = done.result()[0]
        if isinstance(facts, Exception):
            self._say(f"{owner.name} is not used: {facts}")
            self._fleet.refuse(owner, str(facts))
            return
        if owner.kind == "cuda":
            self._model = self._model or facts.spec.name
        self._desks.append(Desk(owner, facts))
        homeless, self._homeless = self._homeless, deque()
        for pending in homeless:
            self._queue(pending)
        self._move()

    def _lose(self, desk: Desk, why: str, *, begun: bool = True) -> None:
        """Stop using a device whose process was lost, for the reason `why`. The request that it was working
        on is done again, or abandoned if that was tried too often. Requests that waited for the device go to
        others. If the process had not `begun` with its request, that does not count as a loss."""
        self._say(f"a device was lost ({why})")
        self._desks.remove(desk)
        self._homes = {client: home for client, home in self._homes.items() if home[1] is not desk}
        at_work, desk.at_work = desk.at_work, []
        for pending in at_work:
            if begun:
                self._do_again(pending, why)
            else:
                self._leases.release(pending.work)
                self._queue(pending)
        for pending in desk.drain():
            self._queue(pending)
        self._fleet.replace(desk.owner, why, fruitful=desk.answered > 0)
        self._move()

    def _do_again(self, pending: Pending, why: str) -> None:
        """Queue a request once more whose process was lost for the reason `why`; abandon it if that has
        happened LOSSES times."""
        pending.alone = True
        if self._leases.lose(pending.work, why) < LOSSES:
            self._queue(pending)
        else:
            self._abandon(pending, why)

    def _abandon(self, pending: Pending, why: str) -> None:
        """Answer a request without its work being done, since LOSSES processes were lost while they worked on
        it."""
        words = f"{described(pending.request)} was abandoned: {LOSSES} processes were lost with it; {why}"
        self._say(words)
        self._give(pending, abandoned_answer(pending.request, words))

    def _give_up_without_devices(self) -> None:
        """Answer the requests that no device can serve with DeviceLost, if no such device is to be expected
        any more."""
        why = None if self._desks else self._fleet.hopeless()
        if why is None and time.monotonic() - self._without_since > PATIENCE_S:
            why = f"none has joined for {PATIENCE_S:g} s"
        if why is not None:
            homeless, self._homeless = self._homeless, deque()
            for pending in homeless:
                self._answer(pending, DeviceLost(f"the fleet has no such device: {why}"))

    # Requests

    def _queue(self, pending: Pending) -> None:
        """Put a request in the queue of a device; while no device serves it, it is kept until one joins."""
        desk = self._desk_for(pending)
        if desk is None:
            if not self._homeless:
                self._without_since = time.monotonic()
            self._homeless.append(pending)
            return
        desk.add(pending)
        self._move()

    def _desk_for(self, pending: Pending) -> Desk | None:
        """The queue of the device that judges this client's task. All requests of a client on one task go to
        the same device; for a new task, it is the one with the fewest clients and requests. None if there is
        no device of the wanted kind. If a request names no GPU model, the model of the first GPU that joined
        is meant."""
        _, task = pending.search
        known, desk = self._homes.get(pending.client, ("", None))
        choice = pending.request.choice
        wanted = replace(choice, gpu=choice.gpu or self._model) if choice.kind == "cuda" else choice
        if desk is not None and known == task and desk.serves(wanted):
            return desk
        able = [one for one in self._desks if one.serves(wanted)]
        if not able:
            return None
        if desk is not None:
            desk.clients.discard(pending.client)
        desk = min(able, key=lambda one: (len(one.clients), one.load))
        if task:
            desk.clients.add(pending.client)
            self._homes[pending.client] = (task, desk)
        return desk

    def _drop(self, client: Hashable) -> None:
        """Drop the requests of a client that were not begun, and forget which device its task is at."""
        self._homes.pop(client, None)
        for desk in self._desks:
            desk.forget(client)
            for pending in desk.drain():
                if pending.client == client:
                    self._open.discard(pending)
                else:
                    desk.add(pending)
        self._homeless = deque(one for one in self._homeless if one.client != client)

    def _move(self) -> None:
        """Start what can be started: compilations where a compiler is free, and requests on devices that are
        idle. Called several times for each request, so that it must not take long with many devices."""
        self._share()
        if self._compiling < self._fleet.compilers.slots:
            for desk in sorted((one for one in self._desks if one.waiting), key=lambda one: len(one.ready)):
                while self._compiling < self._fleet.compilers.slots:
                    pending = desk.next_to_compile()
                    if pending is None:
                        break
                    self._compile(desk, pending)
        for desk in self._desks:
            while desk.ready and not desk.at_work and (chosen := desk.next_to_answer()):
                self._ask(desk, chosen)

    def _share(self) -> None:
        """Have PTX machines without work take over evaluations, each one from the machine with the longest
        queue that can spare one."""
        for desk in [one for one in self._desks if one.could_take_over]:
            donors = sorted((one for one in self._desks if one.could_spare), key=lambda one: -one.load)
            spare = next((s for one in donors if (s := one.spare_evaluation()) is not None), None)
            if spare is None:
                return
            desk.add(spare)

    def _compile(self, desk: Desk, pending: Pending) -> None:
        """Have the candidate of a request compiled for the architecture of the device; `_compiled` is called
        when done."""
        request = pending.request
        assert isinstance(request, EvaluateRequest)
        choice = request.choice
        spec = gpu_named(choice.gpu or DEFAULT_GPU) if choice.kind == "emulated" else desk.facts.spec
        self._compiling += 1
        compiling = self._fleet.compilers.compile(request.task, request.candidate, spec.architecture)
        compiling.add_done_callback(lambda done: self._mail.put(partial(self._compiled, desk, pending, done)))

    def _compiled(self, desk: Desk, pending: Pending, done: "Future[Any]") -> None:
        """Queue a request whose candidate has been compiled, or answer it with the error."""
        self._compiling -= 1
        desk.compiling.discard(pending)
        error = done.exception()
        if isinstance(error, OwnerLost):
            self._leases.begin(pending.work, described(pending.request), "a compiler")  # to be counted
            self._do_again(pending, str(error))
        elif error is not None:
            self._answer(pending, _as_error(error))
        else:
            pending.compiled = done.result()
            desk.add(pending) if desk in self._desks else self._queue(pending)
        self._move()

    def _ask(self, desk: Desk, chosen: Sequence[Pending]) -> None:
        """Send the requests `chosen` to the owner of an idle device. One with which LOSSES processes were
        lost before is abandoned instead."""
        name = desk.owner.name
        for pending in list(chosen):
            if isinstance(pending.request, DescribeRequest):
                continue
            losses = self._leases.begin(pending.work, described(pending.request), name)
            if losses >= LOSSES:
                desk.at_work.remove(pending)
                self._abandon(pending, "as was recorded earlier")
        if not desk.at_work:
            return
        self._fleet.note(desk.owner, described(desk.at_work[0].request))
        desk.began = time.monotonic()
        asked = desk.owner.ask([one.request for one in desk.at_work], desk.at_work[0].compiled)
        asked.add_done_callback(lambda done: self._mail.put(partial(self._answered, desk, done)))

    def _answered(self, desk: Desk, done: "Future[list[Any]]") -> None:
        """Pass the answers of an owner (the process that has a device) on to whoever asked. If profiles that
        were made together failed, they are made one by one, so that only the one at fault gets the error."""
        if desk not in self._desks:
            return  # it was given up before
        error = done.exception()
        if isinstance(error, CompiledLost):
            pending, desk.at_work = desk.at_work[0], []
            pending.compiled = None
            desk.add(pending)
            self._move()
            return
        if error is not None:
            if isinstance(error, OwnerLost):
                self._lose(desk, str(error), begun=error.begun)
            else:
                self._lose(desk, f"internal error: {error!r}")
            return
        answers = done.result()
        desk.charge()
        at_work, desk.at_work = desk.at_work, []
        if not isinstance(at_work[0].request, DescribeRequest):
            self.busy[KINDS[type(at_work[0].request)]] += time.monotonic() - desk.began  # type: ignore[assignment]
        desk.answered += 1
        apart = len(at_work) > 1 and isinstance(answers[0], Exception)
        for pending, answer in zip(at_work, answers, strict=True):
            if apart:
                pending.alone = True
                desk.add(pending)
            else:
                self._answer(pending, answer)
        self._move()
        if not desk.at_work:
            self._fleet.note(desk.owner, "")

    def _answer(self, pending: Pending, answer: object) -> None:
        """Answer a request, with a value or an error to be raised, and record that its work is done."""
        if not isinstance(pending.request, DescribeRequest):
            self._leases.end(pending.work)
        self._give(pending, answer)

    def _give(self, pending: Pending, answer: object) -> None:
        """Set the answer of a request: a value, or an error to be raised."""
        self._open.discard(pending)
        if isinstance(answer, Exception):
            _fail(pending, answer)
        elif not pending.answer.done():
            pending.answer.set_result(answer)


def _fail(pending: Pending, error: Exception) -> None:
    """Let a request raise an error, unless it has an answer already."""
    if not pending.answer.done():
        pending.answer.set_exception(error)


def _as_error(error: BaseException) -> KernelBlasterError:
    """The error to raise for an exception in a compilation."""
    return (
        error if isinstance(error, KernelBlasterError) else KernelBlasterError(f"internal error: {error!r}")
    )
