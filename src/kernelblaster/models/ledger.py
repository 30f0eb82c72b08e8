"""The ledger of a run: what each call to a model cost, and whether the next one fits the budget."""

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
    """A call to a model that is about to be made (`number`, counted from 0): its role, task and step, and the
    most that it may cost, in tokens (`bound`) and in US dollars (`most_usd`, None if the model's price is
    unknown). `request` is its digest."""

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
    """What the call with this `number` cost, in tokens and US dollars (None if the model's price is unknown).
    `told`: the server reported the tokens, or they are estimated; otherwise the most that was reserved is
    charged, and `doubt` says why if the server's report was implausible. `estimated`: no server counts them,
    and they are estimated from the texts. `seconds` is how long the call took; None if it is not known."""

    kind: Literal["used"] = "used"
    number: int
    usage: TokenUsage
    usd: float | None
    told: bool
    doubt: str = ""
    estimated: bool = False
    seconds: float | None = None


class ModelBudget(Record):
    """The most that a run may spend, in tokens (in and out together) and in US dollars; each is None if it
    is not limited."""

    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


@dataclass(frozen=True)
class Total:
    """Sums over some calls: tokens (`usage`) and US dollars; how many calls are `untold` (their tokens are
    unknown, the most possible is charged), `unpriced` (the model's price is unknown, so they are not in
    `usd`) and `estimated` (tokens estimated from the texts); and the seconds of all calls that ended."""

    calls: int
    usage: TokenUsage
    usd: float
    untold: int
    unpriced: int
    estimated: int = 0
    seconds: float = 0.0


class Ledger:
    """What the calls of one run cost, and whether another one fits the budget. Stored in a file if a path is
    given, and continued from what the file has. A call that was begun and never settled, because the process
    was killed, counts with the most it may have cost. Thread-safe. Raises ModelError if the file is damaged
    or cannot be written."""

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
        """Checks before a run that its budget can be kept. Raises ModelError if it is in dollars and the
        price of one of these models is unknown."""
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if self._budget.usd is not None and unknown:
            raise ModelError(
                f"the price of {', '.join(unknown)} is not known, so a budget in dollars cannot be kept. "
                "Give the price in a file (--prices, see docs/models.md), or a budget in tokens."
            )

    def reserve(self, model: str, request: Request[T]) -> Reservation:
        """Sets aside the most that a call of `model` with this request may cost, before it is made; the
        reservation must be settled afterwards. If the budget is too small only because of calls in progress,
        waits for these to be settled. Raises `BudgetSpent` if the call may exceed the budget in any case."""
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
        """For calls that cost nothing, before they are made: raises `BudgetSpent`, which names the request,
        if the calls so far exceed the budget."""
        with self._change:
            if self._exceeds(NOTHING, None):
                raise BudgetSpent(self._refusal(request, None))

    def enter(self, model: str, request: Request[T], usage: TokenUsage, seconds: float) -> None:
        """Records a call of `model` that was not reserved, such as a person's answer, with its estimated
        tokens (`usage`) and how many seconds it took."""
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
        """Record what a reserved call cost. If `usage` is None, since the tokens are unknown, the most that
        was reserved is charged, or more if the answer's `read_bytes` bytes exceed the output limit in tokens
        (a token has at least one byte). `doubt` is why the server's count was not believed; `estimated` and
        `seconds` are as in `Settlement`."""
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
        """Whether a call to `model` with an equal request (by digest) was recorded as ended before."""
        with self._change:
            calls = [r for r in self._reserved if r.number in self._settled]
            return any((r.model, r.request) == (model, request.digest) for r in calls)

    def settle_late(self, model: str, request: Request[T], usage: TokenUsage | None) -> None:
        """Record the end of a call that an earlier process began for an equal request and whose answer it
        stored, before it was killed: `usage` are the tokens of that answer. Does nothing if there is no such
        call."""
        with self._change:
            ended = self._settled.keys() | self._open
            unsettled = [r for r in self._reserved if r.number not in ended]
            mine = [r for r in unsettled if (r.model, r.request) == (model, request.digest)]
        for reservation in mine[-1:]:
            self.settle(reservation, usage)

    def total(self) -> Total:
        """What all calls of the run cost together: tokens, dollars, seconds. A call in progress counts with
        the most that it may cost."""
        with self._change:
            return _total(self._calls())

    def totals(self, by: Literal["role", "task", "step", "model"]) -> dict[str, Total]:
        """The sums of `total` separately for each role, task, step or model (`by` says which), by its
        name."""
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
    """What all calls in a ledger's file (`path`) cost at these prices, computed from the recorded tokens.
    Raises ModelError if the file is damaged, OSError if it cannot be read."""
    return _total(_recounted(path, prices))


def recount_by_role(path: Path, prices: Prices) -> dict[str, Total]:
    """What the calls of each role in a ledger's file (`path`) cost at these prices. The file may be one that
    is being written. Raises ModelError if it is damaged, OSError if it cannot be read."""
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
    """Reads all calls of a ledger's file (`path`) in their order, each with what is charged for it. Raises
    ModelError if the file is damaged, OSError if it cannot be read."""
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
