"""An endpoint whose calls are entered in the ledger: reserved before, settled after."""

from collections.abc import Callable
from typing import Any

from kernelblaster.models.failures import Declined, NotAllowed, Unavailable
from kernelblaster.models.ledger import NOTHING, Ledger
from kernelblaster.models.request import Endpoint, ModelAnswer, Request, T


class Metered:
    """An endpoint whose calls are reserved in the ledger before and settled after, under the name
    `model`. `free(request)` tells that it costs nothing because its answer is stored. Raises
    BudgetSpent."""

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
        try:
            answer = self._endpoint.answer(request)
        except BaseException as error:
            self._ledger.settle(reservation, NOTHING if _costs_nothing(error) else None)
            raise
        self._ledger.settle(reservation, answer.usage, len(answer.text.encode()), answer.doubt)
        return answer


def _costs_nothing(error: BaseException) -> bool:
    """Whether a request that failed so is certainly not charged: the server was not reached or rejected
    it."""
    if isinstance(error, Unavailable):
        return not error.maybe_charged
    return isinstance(error, Declined | NotAllowed)
