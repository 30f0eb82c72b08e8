"""`ModelChoice`: which models a run uses and what it may spend on them. It is recorded in the run, and has
methods that open the models."""

from collections.abc import Callable, Collection
from pathlib import Path

from kernelblaster.models.factory import ByRole, Service, answer_folder, open_models
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import ModelName, ModelTable, parse_table
from kernelblaster.models.prices import read_prices
from kernelblaster.records.record import Record

LEDGER = "usage.jsonl"


class ModelChoice(Record):
    """The language models of a run. `model` is the name (KIND:NAME) of the model for all roles, `roles` are
    texts ROLE=KIND:NAME for single ones; `budget` is what they may cost. `prices` is a file of prices.
    `record` is a folder in which all answers are stored; `replay` is a folder from which all are taken
    instead of asking. Paths are absolute, and None where nothing was given. It contains no keys."""

    model: str | None = None
    roles: tuple[str, ...] = ()
    budget: ModelBudget = ModelBudget()
    prices: str | None = None
    record: str | None = None
    replay: str | None = None

    def table(self, roles: Collection[str]) -> ModelTable:
        """Returns which model plays each role (answers that kind of question). `roles` are the names of all
        roles that there are. Raises `BadName` for a role that is not among them, and for a model's name that
        is not KIND:NAME with a known kind."""
        named = parse_table([*([self.model] if self.model else []), *self.roles], roles)
        return ModelTable(ModelName("replay", self.replay), {}) if self.replay else named

    def ledger(self, folder: Path) -> Ledger:
        """Returns the ledger of what the models cost. It is a file in the run's `folder`, and is continued if
        it exists."""
        prices = read_prices(Path(self.prices) if self.prices else None)
        return Ledger(prices, self.budget, folder / LEDGER)

    def open(
        self,
        roles: Collection[str],
        ledger: Ledger,
        say: Callable[[str], None],
        answers: Path | None = None,
    ) -> ByRole:
        """Opens the models that play `roles`, and returns them as one `Model`, which passes each request to
        the model of its role. Their calls are charged to `ledger`. Raises a `ModelError` before anything is
        asked, if a key is missing, or a price is unknown and the budget is in dollars. `say` is called with a
        line for the user when a hand-off (a person who answers in files) waits. Paid answers are stored in
        the folder `answers`, None for the one that all runs share."""
        record = Path(self.record) if self.record else None
        service = Service(record=record, say=say, answers=answers or answer_folder())
        return open_models(self.table(roles), ledger, service)
