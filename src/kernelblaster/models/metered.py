"""Wrappers of endpoints (sources of unparsed answers) that enter each call in the ledger, the run's record of
what calls cost."""

import time
from collections.abc import Callable
from typing import Any

from kernelblaster.models.failures import Declined, NotAllowed, Unavailable
from kernelblaster.models.ledger import NOTHING, Ledger
from kernelblaster.models.request import Endpoint, ModelAnswer, Request, T, TokenUsage
from kernelblaster.models.tokens import tokens_of


class Metered:
    """An endpoint (source of unparsed answers) that asks the inner `endpoint`, and enters each call in the
    ledger under the name `model`. Before the call it reserves the most that the call may cost; afterwards it
    records what the call did cost. Raises BudgetSpent if the call may exceed the budget.

    `free(request)` is True for a request that costs nothing because its answer is stored. Then nothing is
    reserved or charged, with one exception: if an earlier process was killed before it could record the cost
    of the call that gave this answer, the cost is recorded now.
    """

    def __init__(
        self, endpoint: Endpoint, model: str, ledger: Ledger, *, free: Callable[[Request[Any]], bool]
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._ledger = ledger
        self._free = free

    def answer(self, request: Request[T]) -> ModelAnswer:
        if self._free(request):
            answer = self._endpoint.answer(request)
            self._ledger.settle_late(self._model, request, answer.usage)
            return answer
        reservation = self._ledger.reserve(self._model, request)
        begun = time.monotonic()
        try:
            answer = self._endpoint.answer(request)
        except BaseException as error:
            self._ledger.settle(reservation, NOTHING if _costs_nothing(error) else None)
            raise
        read_bytes, seconds = len(answer.text.encode()), time.monotonic() - begun
        self._ledger.settle(reservation, answer.usage, read_bytes, answer.doubt, seconds=seconds)
        return answer


class TokenCounted:
    """An endpoint (source of unparsed answers) that asks the inner `endpoint`, which costs nothing and counts
    no tokens, such as a hand-off (a person answers). Once there is an answer, the tokens of the prompt and
    the answer are estimated from their texts, and are entered in the ledger under the name `model`; an equal
    request is entered only once. Raises BudgetSpent, without asking, if the calls so far exceed the
    budget."""

    def __init__(self, endpoint: Endpoint, model: str, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._model = model
        self._ledger = ledger

    def answer(self, request: Request[T]) -> ModelAnswer:
        self._ledger.refuse_if_spent(request)
        begun = time.monotonic()
        answer = self._endpoint.answer(request)
        if not self._ledger.knows(self._model, request):
            asked = sum(tokens_of(message.text) for message in request.messages)
            usage = TokenUsage(tokens_in=asked, tokens_out=tokens_of(answer.text))
            seconds = time.monotonic() - begun
            self._ledger.enter(self._model, request, usage, seconds)
        return answer


def _costs_nothing(error: BaseException) -> bool:
    """Whether a request that failed with `error` is certainly not charged: the server was not reached or
    rejected it."""
    if isinstance(error, Unavailable):
        return not error.maybe_charged
    return isinstance(error, Declined | NotAllowed)
