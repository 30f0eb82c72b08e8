"""`ModelChoice`: which models a run uses and its budget for them, as recorded in the run; opens them."""

from collections.abc import Callable, Collection
from pathlib import Path

from kernelblaster.models.factory import ByRole, Service, answer_folder, open_models
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import ModelName, ModelTable, parse_table
from kernelblaster.models.prices import read_prices
from kernelblaster.records.record import Record

LEDGER = "usage.jsonl"


class ModelChoice(Record):
    """The language models of a run by name (KIND:NAME): `model` for all roles, `roles` for single ones
    (`ROLE=KIND:NAME`). `prices` is a file of prices; `record` is a folder to store all answers in, `replay`
    one from which all answers are taken instead of asking. Paths are absolute. Contains no keys."""

    model: str | None = None
    roles: tuple[str, ...] = ()
    budget: ModelBudget = ModelBudget()
    prices: str | None = None
    record: str | None = None
    replay: str | None = None

    def table(self, roles: Collection[str]) -> ModelTable:
        """Which model each role (a kind of question that a policy asks) uses. `roles` are the names of all
        roles. Raises `BadName` for a role that is not among them, and for a model's name that is not
        KIND:NAME of a known kind."""
        named = parse_table([*([self.model] if self.model else []), *self.roles], roles)
        return ModelTable(ModelName("replay", self.replay), {}) if self.replay else named

    def ledger(self, folder: Path) -> Ledger:
        """The ledger of what the models cost, in a file in the run's `folder`; continued if the file
        exists."""
        prices = read_prices(Path(self.prices) if self.prices else None)
        return Ledger(prices, self.budget, folder / LEDGER)

    def open(
        self,
        roles: Collection[str],
        ledger: Ledger,
        say: Callable[[str], None],
        answers: Path | None = None,
    ) -> ByRole:
        """Opens the models of all `roles`; their calls are charged to `ledger`. Raises a `ModelError` if a
        key is missing or a price unknown, before anything is asked. `say` prints where a hand-off (a person
        answers in files) waits. Paid answers are stored in the folder shared by all runs, or in `answers` if
        given."""
        record = Path(self.record) if self.record else None
        service = Service(record=record, say=say, answers=answers or answer_folder())
        return open_models(self.table(roles), ledger, service)
