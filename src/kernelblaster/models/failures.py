"""The errors that asking a language model can raise. They concern the model or its server, never a candidate
kernel."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.models.request import ModelAnswer


class ModelError(KernelBlasterError):
    """Asking a model gave no usable answer; the message is for the user."""


class BadName(ModelError):
    """A text that the user gave as a model or as a role is neither a known kind of model nor a role."""


class NotAllowed(ModelError):
    """The server refuses service: no key, a wrong key, no permission or no credit. Retrying does not help."""


class Declined(ModelError):
    """The server cannot handle the request: an unknown model, a prompt that is too long, ..."""


class Unavailable(ModelError):
    """No answer this time; a retry may succeed. `wait_s` is how many seconds the server asks to wait (None:
    it does not say). `maybe_charged`: the server may charge an unknown number of tokens for the failed
    call."""

    def __init__(self, message: str, *, wait_s: float | None = None, maybe_charged: bool = False) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.maybe_charged = maybe_charged


class CallTimedOut(Unavailable):
    """The model's server took longer than the limits allow, for one part of the answer or for all of it."""


class CutOff(Unavailable):
    """The connection ended, or became unreadable, before the answer was complete."""


class BudgetSpent(ModelError):
    """Raised instead of asking the model, because the call might exceed the run's budget for models."""


class NotRecorded(ModelError):
    """In a replay, where models are answered for from recorded files, there is no answer for this request."""


class BadAnswer(ModelError):
    """The model has answered, but the answer (`answer`) cannot be used."""

    def __init__(self, message: str, answer: ModelAnswer) -> None:
        super().__init__(message)
        self.answer = answer


class Refused(BadAnswer):
    """The model, or a filter around it, refused to answer."""


class Empty(BadAnswer):
    """The model's answer has no text at all."""


class TooLong(BadAnswer):
    """The model did not finish: its answer was cut at the limit on output tokens."""


class Malformed(BadAnswer):
    """The answer is not JSON, or does not fit the schema; `problem` says where, in words that the model is
    shown."""

    def __init__(self, problem: str, answer: ModelAnswer) -> None:
        super().__init__(f"{answer.model} gave an answer that cannot be used: {problem}", answer)
        self.problem = problem
