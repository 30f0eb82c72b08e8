"""Opens models by name, and wraps them so that calls are retried, cached, recorded and paid from the
budget."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernelblaster import keeper
from kernelblaster.models.answers import Answers, Once, RecordingEndpoint, Replay
from kernelblaster.models.failures import BadName, ModelError, NotAllowed
from kernelblaster.models.handoff import HandOff
from kernelblaster.models.keys import has_key
from kernelblaster.models.ledger import Ledger
from kernelblaster.models.metered import Metered, TokenCounted
from kernelblaster.models.names import ModelName, ModelTable
from kernelblaster.models.request import Endpoint, Model, Reply, Request, T
from kernelblaster.models.retries import Limited, Patience, Retrying
from kernelblaster.models.validating_model import ValidatingModel
from kernelblaster.models.wire import CallLimits
from kernelblaster.settings import settings

if TYPE_CHECKING:
    from kernelblaster.models.anthropic_server import AnthropicServer
    from kernelblaster.models.openai_server import OpenAIServer


def answer_folder() -> Path:
    """Returns the folder in which the paid answers of all runs are stored."""
    return settings().data / "answers"


@dataclass(frozen=True)
class Service:
    """How models are used. `limits` are those of one call; `patience` says how often temporary failures are
    tried again; at most `calls_at_once` calls to one model are in progress at a time. Paid answers are stored
    in the folder `answers`; all answers are also stored in `record`, None for nowhere. `say` is called with a
    line for the user when a hand-off (a person who answers in files) waits."""

    limits: CallLimits = field(default_factory=CallLimits)
    patience: Patience = field(default_factory=Patience)
    calls_at_once: int = 4
    answers: Path = field(default_factory=answer_folder)
    record: Path | None = None
    say: Callable[[str], None] = print


class ByRole:
    """All models of a run as one `Model`: a request goes to the model that `table` has for its role (kind of
    question). Asking raises BadName if it has none."""

    def __init__(self, table: ModelTable, models: Mapping[ModelName, Model]) -> None:
        self._table = table
        self._models = models

    def ask(self, request: Request[T]) -> Reply[T]:
        name = self._table.of(request.role)
        if name is None:
            raise BadName(f"no model was named for {request.role}: give --model NAME.")
        return self._models[name].ask(request)


def open_models(table: ModelTable, ledger: Ledger, service: Service) -> ByRole:
    """Opens the models in `table`, which has one for each role (kind of question), and returns them as one
    `Model`, which passes each request to the model of its role. Calls are charged to `ledger`; `service` says
    how the models are used. Raises a `ModelError` before anything is asked if they cannot be used:
    `NotAllowed` if a key is missing, another one if a price is unknown and the budget is in dollars."""
    ledger.check(str(name) for name in table.all if name.server)
    return ByRole(table, {name: open_model(name, ledger, service) for name in table.all})


def open_model(name: ModelName, ledger: Ledger, service: Service) -> Model:
    """Opens one model by its name and returns it. Its answers are validated, and its calls charged to
    `ledger`, the account of what models cost. `service` says how the model is used. A server is wrapped, from
    the outside in, by: recording, retries, merging of equal requests, the limit of calls at once, the ledger,
    and stored answers."""
    endpoint = _endpoint(name, ledger, service)
    return ValidatingModel(
        RecordingEndpoint(endpoint, Answers(service.record)) if service.record else endpoint
    )


def _endpoint(name: ModelName, ledger: Ledger, service: Service) -> Endpoint:
    """The endpoint (source of raw answers) that a model's name stands for, with all wrappers of `open_model`
    except recording and validation. Calls are charged to `ledger`; `service` says how the model is used."""
    if name.kind == "handoff":
        return TokenCounted(HandOff(Path(name.rest), say=service.say), str(name), ledger)
    if name.kind == "replay":
        return Replay(Answers(Path(name.rest)))
    answers = Answers(service.answers / re.sub(r"[^A-Za-z0-9._-]+", "_", str(name)))
    kept = RecordingEndpoint(open_server(name, service.limits), answers)
    metered = Metered(kept, str(name), ledger, free=answers.has)
    return Retrying(Once(Limited(metered, service.calls_at_once)), service.patience)


def open_server(name: ModelName, limits: CallLimits) -> "OpenAIServer | AnthropicServer":
    """Returns a client of the server that the model's name `name` stands for, with the limits `limits` on
    each call, without retries, record of costs (ledger) or stored answers. The key is looked up at each call,
    in the environment or in the keeper (the process that holds the keys). The keeper, if there is one, is
    told the server's address, since it sends keys only to such addresses. Raises a `ModelError` if the name
    is a folder's, a key is missing, or a library is not installed."""
    kind = name.server
    if kind is None:
        raise BadName(f"{name} is a folder, not a server.")
    if kind.needs_key and not has_key(kind.key):
        raise NotAllowed(f"{name}: needs a key in the environment variable {kind.key}.")
    keeper.claim("server", kind.url)
    try:
        if kind.speaks == "anthropic":
            from kernelblaster.models.anthropic_server import AnthropicServer

            return AnthropicServer(str(name), name.rest, url=kind.url, key=kind.key, limits=limits)
        from kernelblaster.models.openai_server import OpenAIServer

        return OpenAIServer(str(name), name.rest, url=kind.url, key=kind.key, limits=limits)
    except ImportError as error:
        raise ModelError(f"{name}: {error.name} is missing; pip install 'kernelblaster[llm]'.") from error
