"""`ModelUse`: which language models take part in a search, in which roles, and what they may cost. It is made
from the user's options, checked, and recorded in the run; `open_strategy` opens its models when the search
begins."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.models.choice import LEDGER, ModelChoice
from kernelblaster.models.ledger import Ledger
from kernelblaster.models.names import FOLDERS
from kernelblaster.models.prices import read_prices
from kernelblaster.policies.llm.roles import ROLES, Cast, cast_of
from kernelblaster.records.record import Record
from kernelblaster.search.names import REMEMBERS, StrategyName
from kernelblaster.search.strategy import StrategyMaker
from kernelblaster.sessions.settings import Search
from kernelblaster.store.pointer import pointer_of
from kernelblaster.store.run import Run

if TYPE_CHECKING:
    from kernelblaster.policies.expert.policy import ExpertPolicy

RETRIES_OF_A_MODEL = 2  # of a candidate that fails; a model can use what is said of it


class ModelUse(Record):
    """Which language models a run uses and for what. `choice` has the models' names and the budget for their
    calls, `strategy` is the way to search. `roles` says who plays which role, in texts as the user gave them:
    ROLE=expert, ROLE=llm or ROLE=KIND:NAME."""

    choice: ModelChoice
    roles: tuple[str, ...]
    strategy: StrategyName

    @property
    def cast(self) -> Cast:
        """Who plays each role of a search (kind of question, such as the proposer's): a language model or the
        built-in expert."""
        return self._cast[0]

    @property
    def _cast(self) -> tuple[Cast, list[str]]:
        """Which roles a model plays and which the expert, and the texts ROLE=KIND:NAME of roles with a model
        of their own."""
        usual = self.choice.model is not None or self.choice.replay is not None
        return cast_of(self.roles, usual=usual)

    @property
    def remembers(self) -> bool:
        """True if the search uses and teaches the knowledge base; False for strategies without memory."""
        return self.strategy in REMEMBERS

    @property
    def writes_first(self) -> bool:
        """True if the user named a model that can write the first candidate (role `initial-writer`). Tasks
        for which the built-in expert policy has no kernels can then be searched too, because the model writes
        their first candidate."""
        return self.choice.table(ROLES).of("initial-writer") is not None

    def allowing(self, usd: float | None, tokens: int | None) -> "ModelUse":
        """Returns a copy of this object (models, roles, strategy) with other limits on what models may cost:
        `usd` in US dollars, `tokens` in tokens. A limit that is None stays as it is."""
        given = {name: value for name, value in (("usd", usd), ("tokens", tokens)) if value is not None}
        budget = self.choice.budget.model_copy(update=given)
        return self.model_copy(update={"choice": self.choice.model_copy(update={"budget": budget})})


def model_use_of(choice: ModelChoice, roles: Sequence[str], strategy: StrategyName) -> ModelUse | None:
    """Returns which language models a search is to use, in which roles, and what they may cost. This is made
    from the user's options: models and budget (`choice`), texts on roles such as ROLE=KIND:NAME (`roles`),
    and the strategy. None if no option asks for a model. Raises KernelBlasterError if options that need a
    model are given without one, or a role that a model is to play has none."""
    if choice.model is None and choice.replay is None and not any("=" in role for role in roles):
        given = strategy != "maic-rl" or choice != ModelChoice() or roles
        if given:
            raise KernelBlasterError("a language model is needed for this: give --model KIND:NAME.")
        return None
    found = ModelUse(choice=choice, roles=tuple(roles), strategy=strategy)
    cast, named = found._cast
    split = (text.partition("=") for text in named)
    models = tuple(f"{role}={absolute_name(name)}" for role, _, name in split)
    found = found.model_copy(update={"choice": choice.model_copy(update={"roles": models})})
    table = found.choice.table(ROLES)
    missing = [role for role in ROLES if cast.llm(role) and table.of(role) is None]
    if missing:
        raise KernelBlasterError(f"no model was named for {', '.join(missing)}: give --model KIND:NAME.")
    return found


def retries_with(model_use: ModelUse | None) -> int:
    """Returns how often a failed candidate may be corrected (`Search.retries`): 2 times if language models
    take part, because they can use the judge's feedback, and once if `model_use` is None."""
    return Search().retries if model_use is None else RETRIES_OF_A_MODEL


def recorded_model_use(about: dict[str, Any]) -> ModelUse | None:
    """Returns which language models a run uses, in which roles, and what they may cost, as the run recorded
    it. None if it uses no model. `about` is the data of the run's first event."""
    kept = about.get("models")
    return ModelUse.model_validate_json(json.dumps(kept)) if kept else None


def models_of(run: Run, usd: float | None = None, tokens: int | None = None) -> ModelUse | None:
    """Returns which language models an existing run uses, in which roles, and what they may cost; None if it
    uses no model. `usd` and `tokens` are new limits on the costs of the whole run, including what was spent
    so far; None keeps the old ones. They are only in the result: the run's record is not changed. Raises
    StoreError if the run has no events, and a `ModelError` if a model cannot be used."""
    if not run.events:
        raise StoreError(f"{run.folder}: was stopped before it began; remove it, and start again.")
    models = recorded_model_use(run.events[0].data)
    if models is not None:
        check_models(models)
    return models and models.allowing(usd, tokens)


def absolute_name(model: str) -> str:
    """Returns the model's name KIND:NAME with an absolute path, if the kind is one whose NAME is a folder (a
    hand-off to a person, or recorded answers). Other names are returned unchanged."""
    kind, _, rest = model.partition(":")
    return f"{kind}:{Path(rest).absolute()}" if kind in FOLDERS and rest else model


def check_models(model_use: ModelUse) -> None:
    """Raises a `ModelError` if the key of a model in `model_use` is missing, or if the budget is in US
    dollars and a price is unknown. No model is asked."""
    choice = model_use.choice
    prices = read_prices(Path(choice.prices) if choice.prices else None)
    choice.open(ROLES, Ledger(prices, choice.budget), lambda text: None)


def check_ledger(run: Run) -> None:
    """Raises StoreError if a run in a shared database has asked models on another machine. What they cost is
    recorded only in the run's folder on that machine; on this one, the budget would be counted from zero."""
    asked = any(event.kind == "evaluation" for event in run.events)
    if asked and pointer_of(run.folder) is not None and not (run.folder / LEDGER).exists():
        raise StoreError(
            f"{run.name}: its models were asked on another machine, where {LEDGER} in its folder says what "
            "they cost; go on there, or copy that file here."
        )


@contextmanager
def open_strategy(
    model_use: ModelUse,
    folder: Path,
    expert: "ExpertPolicy",
    say: Callable[[str], None],
    answers: Path | None = None,
) -> Iterator[StrategyMaker]:
    """A context that opens a run's models and gives a function that makes the run's strategy. `folder` is the
    run's; what the models cost is recorded in it. `expert` plays the roles that no model plays. `say` is
    called with a message when a person or agent must answer for a model (hand-off). Answers are stored in the
    folder `answers`, None for the one that all runs share."""
    from kernelblaster.search.with_model import Players, strategy_named

    ledger = model_use.choice.ledger(folder)
    try:
        models = model_use.choice.open(ROLES, ledger, say, answers)
        yield strategy_named(model_use.strategy, Players(expert, models, model_use.cast))
    finally:
        ledger.close()
