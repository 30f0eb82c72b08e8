"""The errors that asking a language model can raise. They are about the model or its server, never about a
candidate."""

from kernelblaster.errors import KernelBlasterError
from kernelblaster.models.request import ModelAnswer


class ModelError(KernelBlasterError):
    """Raised if a model that was asked gave no usable answer; the message is for the user."""


class BadName(ModelError):
    """Raised if a name given by the user cannot be used: its kind of model or its role is unknown, or it
    names a folder where a server is needed. Also raised for a role that has no model."""


class NotAllowed(ModelError):
    """Raised if the server refuses service: the key is missing or wrong, or there is no permission or no
    credit. Asking again does not help."""


class Declined(ModelError):
    """Raised if the server cannot handle the request, for example because it does not know the model or the
    prompt is too long."""


class Unavailable(ModelError):
    """Raised if there was no answer, for the reason `message`, but asking again may help. `wait_s` is how
    many seconds the server asks to wait, None if it does not say. `maybe_charged`: the server may charge an
    unknown number of tokens for the failed call."""

    def __init__(self, message: str, *, wait_s: float | None = None, maybe_charged: bool = False) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        self.maybe_charged = maybe_charged


class CallTimedOut(Unavailable):
    """Raised if the model's server took longer than the limits allow, for one part of the answer or for all
    of it."""


class CutOff(Unavailable):
    """Raised if the connection ended, or its data became unreadable, before the answer was complete."""


class BudgetSpent(ModelError):
    """Raised if a model was not asked, because the call might cost more than is left of the run's budget for
    models."""


class NotRecorded(ModelError):
    """Raised if a replay, which gives recorded answers instead of asking models, has no answer for a
    request."""


class BadAnswer(ModelError):
    """Raised if the model has answered, but the answer (`answer`) cannot be used, for the reason
    `message`."""

    def __init__(self, message: str, answer: ModelAnswer) -> None:
        super().__init__(message)
        self.answer = answer


class Refused(BadAnswer):
    """Raised if the model, or a filter around it, refused to answer."""


class Empty(BadAnswer):
    """Raised if the model's answer has no text at all."""


class TooLong(BadAnswer):
    """Raised if the model did not finish: its answer was cut at the limit on output tokens."""


class Malformed(BadAnswer):
    """Raised if the answer is not JSON, or does not fit the schema. `problem` says where, in words that the
    model can be shown."""

    def __init__(self, problem: str, answer: ModelAnswer) -> None:
        super().__init__(f"{answer.model} gave an answer that cannot be used: {problem}", answer)
        self.problem = problem
