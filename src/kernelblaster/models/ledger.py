"""The ledger of a run: what each call to a model has cost, and whether the budget allows another."""

import contextlib
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import Field, ValidationError

from kernelblaster.models.failures import BudgetSpent, ModelError
from kernelblaster.models.prices import Prices
from kernelblaster.models.request import Request, T, TokenUsage
from kernelblaster.records.record import Record

NOTHING = TokenUsage(tokens_in=0, tokens_out=0)


class Reservation(Record):
    """The entry that is made before a call to a model, so that the budget has room for it whatever happens.
    `number` counts the calls of the ledger (the run's account of what models cost), from 0; `request` is the
    request's digest; `role`, `task` and `step` say what is asked. `bound` is the most that the call may take
    in tokens, and `most_usd` in US dollars, None if the model's price is unknown."""

    kind: Literal["reserved"] = "reserved"
    number: int
    model: str
    request: str
    role: str
    task: str
    step: str
    bound: TokenUsage
    most_usd: float | None


class Settlement(Record):
    """What the call with this `number` cost, in tokens (`usage`) and in US dollars (`usd`, None if the price
    is unknown). `told`: the number of tokens is known, counted by the server or `estimated`. If `told` is
    False, the call is charged the most that was reserved, or more if its answer was longer. `doubt` says why
    the server's count was not believed, empty otherwise. `estimated`: no server counts the tokens, as for a
    hand-off, so they are estimated from the texts. `seconds` is how long the call took, None if not known."""

    kind: Literal["used"] = "used"
    number: int
    usage: TokenUsage
    usd: float | None
    told: bool
    doubt: str = ""
    estimated: bool = False
    seconds: float | None = None


class ModelBudget(Record):
    """The most that a run may spend on models: `tokens` of prompts and answers together, and `usd` US
    dollars. None means no limit."""

    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


@dataclass(frozen=True)
class Total:
    """What some calls cost together, in tokens (`usage`), US dollars and seconds. `untold` counts calls of
    which the tokens are unknown, so that the most possible is charged. `unpriced` counts calls to models of
    unknown price, which are missing in `usd`. `estimated` counts calls whose tokens are estimated from the
    texts. `seconds` is the sum over calls whose duration is known."""

    calls: int
    usage: TokenUsage
    usd: float
    untold: int
    unpriced: int
    estimated: int = 0
    seconds: float = 0.0


class Ledger:
    """What the calls of one run to models have cost by `prices`, and whether another one fits `budget`. It is
    stored in the file `path`, if one is given, and continues what is in it. A call may have been begun and
    not ended, because the process was killed; it counts with the most that it may have cost. Threads may
    share a ledger. Methods raise ModelError if the file is damaged or cannot be written."""

    def __init__(self, prices: Prices, budget: ModelBudget, path: Path | None = None) -> None:
        self._prices = prices
        self._budget = budget
        self._change = threading.Condition()
        self._open: set[int] = set()
        self._reserved: list[Reservation] = []
        self._settled: dict[int, Settlement] = {}
        self._file: BinaryIO | None = None
        if path is not None:
            self._read(path)

    def check(self, models: Iterable[str]) -> None:
        """Raises ModelError if the budget cannot be kept with these models: it is in US dollars, and the
        price of one of them is unknown."""
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if self._budget.usd is not None and unknown:
            raise ModelError(
                f"the price of {', '.join(unknown)} is not known, so a budget in dollars cannot be kept. "
                "Give the price in a file (--prices, see docs/models.md), or a budget in tokens."
            )

    def reserve(self, model: str, request: Request[T]) -> Reservation:
        """Sets aside the most that a call of `model` with this request may cost. Returns this reservation,
        which is also written to the ledger's file if there is one. To be called before the call; `settle`
        ends the reservation. If the budget is too small only because of other calls in progress, waits until
        they are settled. Raises `BudgetSpent` if the call may exceed the budget even then."""
        self.check([model])
        rates = self._prices.of(model)
        most_usd = rates.most_usd(request.bound) if rates else None
        with self._change:
            while self._exceeds(request.bound, most_usd):
                if not self._open:
                    raise BudgetSpent(self._refusal(request, most_usd))
                self._change.wait()
            return self._reserve(model, request, most_usd)

    def refuse_if_spent(self, request: Request[T]) -> None:
        """Raises `BudgetSpent`, which names the request, if the calls so far exceed the budget. It is for
        calls that cost nothing themselves, such as those that a person answers: `reserve` is not called for
        these."""
        with self._change:
            if self._exceeds(NOTHING, None):
                raise BudgetSpent(self._refusal(request, None))

    def enter(self, model: str, request: Request[T], usage: TokenUsage, seconds: float) -> None:
        """Records a call of `model` with `request` for which nothing was reserved, such as an answer by a
        person. `usage` are its estimated tokens, `seconds` is how long it took."""
        with self._change:
            reservation = self._reserve(model, request, None)
        self.settle(reservation, usage, estimated=True, seconds=seconds)

    def _reserve(self, model: str, request: Request[T], most_usd: float | None) -> Reservation:
        """Record that a call begins, which may cost at most `most_usd` dollars (None: unknown); the caller
        holds the lock."""
        reservation = Reservation(
            number=len(self._reserved),
            model=model,
            request=request.digest,
            role=request.role,
            task=request.task,
            step=request.step,
            bound=request.bound,
            most_usd=most_usd,
        )
        self._write(reservation)
        self._reserved.append(reservation)
        self._open.add(reservation.number)
        return reservation

    def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        read_bytes: int = 0,
        doubt: str = "",
        *,
        estimated: bool = False,
        seconds: float | None = None,
    ) -> None:
        """Records what the call of `reservation` cost. `usage` has its tokens; None means that they are
        unknown. The call is then charged the most that was reserved. If its answer has `read_bytes` bytes and
        that is more than the output tokens reserved, the output is charged as one token for each byte.
        `doubt` says why the server's count was not believed. `estimated`: the tokens are estimated from the
        texts. `seconds` is how long the call took, None if not known."""
        told, model, bound = usage is not None, reservation.model, reservation.bound
        if usage is None and read_bytes > bound.tokens_out:
            usage = bound.model_copy(update={"tokens_out": read_bytes})
        usd = self._prices.usd(model, usage) if usage else reservation.most_usd
        settlement = Settlement(
            number=reservation.number,
            usage=usage or bound,
            usd=usd,
            told=told,
            doubt=doubt,
            estimated=estimated,
            seconds=seconds,
        )
        with self._change:
            self._write(settlement)
            self._settled[reservation.number] = settlement
            self._open.discard(reservation.number)
            self._change.notify_all()

    def knows(self, model: str, request: Request[T]) -> bool:
        """True if this record of calls has a call to `model` with an equal request (by digest) that has
        ended."""
        with self._change:
            calls = [r for r in self._reserved if r.number in self._settled]
            return any((r.model, r.request) == (model, request.digest) for r in calls)

    def settle_late(self, model: str, request: Request[T], usage: TokenUsage | None) -> None:
        """Records the end of a call to `model` that an earlier process began and could not record because it
        was killed, though it had stored the answer. `request` is equal to that call's, `usage` has the tokens
        of the stored answer. Does nothing if there is no such call."""
        with self._change:
            ended = self._settled.keys() | self._open
            unsettled = [r for r in self._reserved if r.number not in ended]
            mine = [r for r in unsettled if (r.model, r.request) == (model, request.digest)]
        for reservation in mine[-1:]:
            self.settle(reservation, usage)

    def total(self) -> Total:
        """Returns what all calls of the run cost together. A call in progress counts with the most that it
        may cost."""
        with self._change:
            return _total(self._calls())

    def totals(self, by: Literal["role", "task", "step", "model"]) -> dict[str, Total]:
        """Returns what calls cost together, grouped by their role, task, step or model, as `by` says. The
        keys of the result are the names of these."""
        with self._change:
            groups = defaultdict(list)
            for reservation, settlement in self._calls():
                groups[getattr(reservation, by)].append((reservation, settlement))
            return {name: _total(calls) for name, calls in sorted(groups.items())}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _calls(self) -> list[tuple[Reservation, Settlement]]:
        """All calls, each with what is charged for it: for a call that has not ended, the most that it may
        cost."""
        return [(r, self._settled.get(r.number) or _unknown(r)) for r in self._reserved]

    def _exceeds(self, bound: TokenUsage, most_usd: float | None) -> bool:
        """Whether a call of at most `bound` tokens and `most_usd` dollars might exceed the budget, on top of
        all calls so far."""
        spent = _total(self._calls())
        tokens, usd = self._budget.tokens, self._budget.usd
        if tokens is not None and spent.usage.tokens + bound.tokens > tokens:
            return True
        return usd is not None and spent.usd + (most_usd or 0.0) > usd

    def _refusal(self, request: Request[T], most_usd: float | None) -> str:
        """The message for the user on a call that the budget does not allow; `most_usd` is the most that it
        may cost."""
        spent = _total(self._calls())
        parts = []
        if self._budget.tokens is not None:
            parts.append(
                f"{spent.usage.tokens} of {self._budget.tokens} tokens, and {request.bound.tokens} more"
            )
        if self._budget.usd is not None and most_usd is not None:
            parts.append(f"${spent.usd:.4f} of ${self._budget.usd:.4f}, and ${most_usd:.4f} more")
        return (
            f"the budget for models is spent: {'; '.join(parts)} may be needed for the next call "
            f"({request.role}). Resume with a larger budget to go on."
        )

    def _read(self, path: Path) -> None:
        """Take over the calls in a ledger's file, drop a last line that was cut off, and keep the file open
        for appending. Raises ModelError if it cannot be read."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            reserved, settled, whole = _parse(path.read_bytes(), path)
            self._file.truncate(whole)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from error
        self._reserved, self._settled = reserved, settled

    def _write(self, record: Reservation | Settlement) -> None:
        """Append a record to the file, if there is one; it is flushed to disk on return. Raises ModelError
        if the file cannot be written."""
        if self._file is None:
            return
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(record.model_dump_json().encode() + b"\n")
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
            raise ModelError(f"{self._file.name}: cannot write: {error.strerror or error}") from error


def recount(path: Path, prices: Prices) -> Total:
    """Returns what all calls in the ledger's file `path` cost together, computed from the recorded tokens
    with `prices`. Raises ModelError if the file is damaged, OSError if it cannot be read."""
    return _total(_recounted(path, prices))


def recount_by_role(path: Path, prices: Prices) -> dict[str, Total]:
    """Returns what the calls of each role in the ledger's file `path` cost together, computed from the
    recorded tokens with `prices`. The file may be one that is being written. Raises ModelError if it is
    damaged, OSError if it cannot be read."""
    groups = defaultdict(list)
    for reservation, settlement in _recounted(path, prices):
        groups[reservation.role].append((reservation, settlement))
    return {role: _total(calls) for role, calls in sorted(groups.items())}


def _recounted(path: Path, prices: Prices) -> list[tuple[Reservation, Settlement]]:
    """The calls in a ledger's file, with what each cost at these prices. Raises ModelError if the file is
    damaged, OSError if it cannot be read."""
    calls = []
    for reservation, settlement in read_ledger(path):
        rates = prices.of(reservation.model)
        cost = None if rates is None else rates.usd if settlement.told else rates.most_usd
        usd = None if cost is None else cost(settlement.usage)
        calls.append((reservation, settlement.model_copy(update={"usd": usd})))
    return calls


def read_ledger(path: Path) -> list[tuple[Reservation, Settlement]]:
    """Returns all calls in the ledger's file `path`, in the order in which they were begun, each as (its
    reservation, with what was asked; its settlement, with what is charged for it). A call whose end is not
    recorded is charged the most that was reserved. Raises ModelError if the file is damaged, OSError if it
    cannot be read."""
    reserved, settled, _ = _parse(path.read_bytes(), path)
    return [(one, settled.get(one.number) or _unknown(one)) for one in reserved]


def _unknown(reservation: Reservation) -> Settlement:
    """The entry for a call whose real cost will never be known: the most that was set aside for it is
    charged."""
    return Settlement(
        number=reservation.number, usage=reservation.bound, usd=reservation.most_usd, told=False
    )


def _total(calls: Iterable[tuple[Reservation, Settlement]]) -> Total:
    settlements = [settlement for _, settlement in calls]
    return Total(
        calls=len(settlements),
        usage=sum((s.usage for s in settlements), NOTHING),
        usd=fsum(s.usd for s in settlements if s.usd is not None),
        untold=sum(not s.told for s in settlements),
        unpriced=sum(s.usd is None for s in settlements),
        estimated=sum(s.estimated for s in settlements),
        seconds=fsum(s.seconds for s in settlements if s.seconds is not None),
    )


def _parse(data: bytes, path: Path) -> tuple[list[Reservation], dict[int, Settlement], int]:
    """Reads the content (`data`) of a ledger's file: (reservations, settlements by number, length in bytes of
    the complete lines). Only the last line may be incomplete; raises ModelError if another is damaged."""
    reserved: list[Reservation] = []
    settled: dict[int, Settlement] = {}
    lines = data.split(b"\n")[:-1]
    whole = 0
    for number, line in enumerate(lines):
        try:
            if json.loads(line)["kind"] == "reserved":
                reserved.append(Reservation.model_validate_json(line))
            else:
                settlement = Settlement.model_validate_json(line)
                settled[settlement.number] = settlement
        except (ValueError, KeyError, TypeError, ValidationError) as error:
            if number == len(lines) - 1:
                break
            raise ModelError(f"{path}: line {number + 1} is damaged.") from error
        whole += len(line) + 1
    return reserved, settled, whole
