"""How asking a model can fail. None of these says anything about a candidate."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.models.request import ModelAnswer


class ModelError(KernelBlasterError):
    """No usable answer."""


class BadName(ModelError):
    """A model's name that means nothing here."""


class NotAllowed(ModelError):
    """The server does not serve us: no key, a wrong one, no rights, or no credit. Waiting does not help."""


class Declined(ModelError):
    """The server cannot do what was asked of it: an unknown model, a prompt that is too long, ..."""


class Unavailable(ModelError):
    """No answer this time; a later try may have one. `wait_s` is the server's own hint. `maybe_charged`:
    the server may have worked on it, and nobody knows for how many tokens."""

    def __init__(self, message: str, *, wait_s: float | None = None, maybe_charged: bool = False) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.maybe_charged = maybe_charged


class CallTimedOut(Unavailable):
    """The answer took longer than allowed."""


class CutOff(Unavailable):
    """The connection ended, or what came was no longer readable, before the answer was whole."""


class BudgetSpent(ModelError):
    """Another call might cost more than what is left."""


class NotRecorded(ModelError):
    """A replay was asked something that its recording has no answer to."""


class BadAnswer(ModelError):
    """There is an answer, and it is of no use."""

    def __init__(self, message: str, answer: ModelAnswer) -> None:
        super().__init__(message)
        self.answer = answer


class Refused(BadAnswer):
    """The model, or a filter around it, does not want to."""


class Empty(BadAnswer):
    """There is nothing in it."""


class TooLong(BadAnswer):
    """It did not end within the limit on output tokens."""


class Malformed(BadAnswer):
    """It is not JSON, or JSON that does not fit the schema: `problem` says where."""

    def __init__(self, problem: str, answer: ModelAnswer) -> None:
        super().__init__(f"{answer.model} gave an answer that cannot be used: {problem}", answer)
        self.problem = problem
