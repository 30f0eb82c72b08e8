"""`ValidatingModel`: a model whose answers are validated, and which gets one more try after a malformed
answer."""

from dataclasses import replace

from kernelblaster.models.answer_parser import read
from kernelblaster.models.failures import Malformed
from kernelblaster.models.request import ChatMessage, Endpoint, ModelAnswer, Reply, Request, T, TokenUsage

SHOWN_ANSWER = 20_000  # characters of a malformed answer that are shown to the model again


class ValidatingModel:
    """A `Model` made from any endpoint (source of unparsed answers): it parses the answers and validates them
    by the request's schema."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def ask(self, request: Request[T]) -> Reply[T]:
        """Sends the request to the model and returns its answer as a validated object. If the answer is
        `Malformed`, the model is shown it with the problem and asked once more; if the second answer is
        malformed too, `Malformed` is raised. All other failures are raised at once."""
        answer = self._endpoint.answer(request)
        try:
            return _reply(read(request, answer), answer)
        except Malformed as problem:
            again = repair(request, answer, problem.problem)
        second = self._endpoint.answer(again)
        reply = _reply(read(again, second), second)
        return replace(reply, usage=_sum(answer.usage, second.usage), calls=2)


def repair(request: Request[T], answer: ModelAnswer, problem: str) -> Request[T]:
    """Returns the request for a correction: the same conversation, continued by the malformed `answer` and by
    a message that says what the `problem` with it is."""
    text = (
        f"That answer cannot be used: {problem}.\n"
        "Answer again with the whole corrected JSON object, and nothing else."
    )
    said = ChatMessage(speaker="assistant", text=answer.text[:SHOWN_ANSWER])
    return replace(request, messages=(*request.messages, said, ChatMessage(speaker="user", text=text)))


def _reply(value: T, answer: ModelAnswer) -> Reply[T]:
    return Reply(value=value, text=answer.text, model=answer.model, usage=answer.usage)


def _sum(first: TokenUsage | None, second: TokenUsage | None) -> TokenUsage | None:
    """The tokens of two calls together; None if those of one are unknown."""
    return first + second if first and second else None
