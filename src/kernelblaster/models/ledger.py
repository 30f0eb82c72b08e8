"""The ledger of a run: what each call to a model cost, and the budget."""

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
    """A call that is about to be made, and the most that it may cost."""

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
    """The cost of a call. `told`: the server reported it; otherwise it is unknown and the most is charged.
    `doubt`: why the server's report is implausible. `usd` is None if the model's price is unknown."""

    kind: Literal["used"] = "used"
    number: int
    usage: TokenUsage
    usd: float | None
    told: bool
    doubt: str = ""


class ModelBudget(Record):
    """The most that a run may spend; None: no limit."""

    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False)


@dataclass(frozen=True)
class Total:
    """Sums over some calls: tokens, money, `untold` calls whose cost the server did not report, and
    `unpriced` calls, which are not in `usd`."""

    calls: int
    usage: TokenUsage
    usd: float
    untold: int
    unpriced: int


class Ledger:
    """The calls of one run, stored in a file if a path is given. A call that was begun and never settled,
    because the process was killed, counts with its bound. Thread-safe."""

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
        """Raise if the budget is in money and the price of a model is unknown."""
        unknown = sorted({model for model in models if self._prices.of(model) is None})
        if self._budget.usd is not None and unknown:
            raise ModelError(
                f"the price of {', '.join(unknown)} is not known, so a budget in dollars cannot be kept. "
                "Give the price in a file (--prices, see docs/models.md), or a budget in tokens."
            )

    def reserve(self, model: str, request: Request[T]) -> Reservation:
        """Set aside the most that a call may cost. If that is too much only because of calls in progress,
        wait for them. Raises `BudgetSpent`."""
        self.check([model])
        rates = self._prices.of(model)
        most_usd = rates.most_usd(request.bound) if rates else None
        with self._change:
            while self._exceeds(request.bound, most_usd):
                if not self._open:
                    raise BudgetSpent(self._refusal(request, most_usd))
                self._change.wait()
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
        self, reservation: Reservation, usage: TokenUsage | None, read_bytes: int = 0, doubt: str = ""
    ) -> None:
        """Record what a call cost. `usage` is None if unknown; the answer then had `read_bytes` bytes, which
        may exceed the output limit. A token has at least one byte."""
        told, model, bound = usage is not None, reservation.model, reservation.bound
        if usage is None and read_bytes > bound.tokens_out:
            usage = bound.model_copy(update={"tokens_out": read_bytes})
        usd = self._prices.usd(model, usage) if usage else reservation.most_usd
        settlement = Settlement(
            number=reservation.number, usage=usage or bound, usd=usd, told=told, doubt=doubt
        )
        with self._change:
            self._write(settlement)
            self._settled[reservation.number] = settlement
            self._open.discard(reservation.number)
            self._change.notify_all()

    def settle_late(self, model: str, request: Request[T], usage: TokenUsage | None) -> None:
        """Record the cost of a call that an earlier process began and whose answer it stored, but did not
        settle."""
        with self._change:
            ended = self._settled.keys() | self._open
            unsettled = [r for r in self._reserved if r.number not in ended]
            mine = [r for r in unsettled if (r.model, r.request) == (model, request.digest)]
        for reservation in mine[-1:]:
            self.settle(reservation, usage)

    def total(self) -> Total:
        with self._change:
            return _total(self._calls())

    def totals(self, by: Literal["role", "task", "step", "model"]) -> dict[str, Total]:
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
        """All calls with what is charged for each; for unsettled ones that is their bound."""
        return [(r, self._settled.get(r.number) or _unknown(r)) for r in self._reserved]

    def _exceeds(self, bound: TokenUsage, most_usd: float | None) -> bool:
        spent = _total(self._calls())
        tokens, usd = self._budget.tokens, self._budget.usd
        if tokens is not None and spent.usage.tokens + bound.tokens > tokens:
            return True
        return usd is not None and spent.usd + (most_usd or 0.0) > usd

    def _refusal(self, request: Request[T], most_usd: float | None) -> str:
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
            reserved, settled, whole = _parse(path.read_bytes(), path)
            self._file.truncate(whole)
        except OSError as error:
            raise ModelError(f"{path}: {error.strerror or error}") from error
        self._reserved, self._settled = reserved, settled

    def _write(self, record: Reservation | Settlement) -> None:
        """Append a record; it is flushed to disk on return."""
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
    """The total of a ledger's file, computed from the recorded tokens and these prices."""
    reserved, settled, _ = _parse(path.read_bytes(), path)
    calls = []
    for reservation in reserved:
        settlement = settled.get(reservation.number) or _unknown(reservation)
        rates = prices.of(reservation.model)
        cost = None if rates is None else rates.usd if settlement.told else rates.most_usd
        usd = None if cost is None else cost(settlement.usage)
        calls.append((reservation, settlement.model_copy(update={"usd": usd})))
    return _total(calls)


def _unknown(reservation: Reservation) -> Settlement:
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
    )


def _parse(data: bytes, path: Path) -> tuple[list[Reservation], dict[int, Settlement], int]:
    """(reservations, settlements by number, bytes read). Only the last line may be incomplete."""
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
