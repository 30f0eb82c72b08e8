"""Which models a run uses and what it may spend, as it is written into the run; and opening them."""

from collections.abc import Callable, Collection
from pathlib import Path

from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import ModelName, ModelTable, parse_table
from kernelblaster.models.opening import ByRole, Service, answer_folder, open_models
from kernelblaster.models.prices import read_prices
from kernelblaster.records.record import Record

LEDGER = "usage.jsonl"


class ModelChoice(Record):
    """Models by name, for all roles and for single ones (`ROLE=KIND:NAME`); files and folders by absolute
    paths. With `replay`, all answers come from a recording. There are no keys in it."""

    model: str | None = None
    roles: tuple[str, ...] = ()
    budget: ModelBudget = ModelBudget()
    prices: str | None = None
    record: str | None = None
    replay: str | None = None

    def table(self, roles: Collection[str]) -> ModelTable:
        """Raises `BadName`."""
        named = parse_table([*([self.model] if self.model else []), *self.roles], roles)
        return ModelTable(ModelName("replay", self.replay), {}) if self.replay else named

    def ledger(self, folder: Path) -> Ledger:
        """What was spent, in the folder of a run."""
        prices = read_prices(Path(self.prices) if self.prices else None)
        return Ledger(prices, self.budget, folder / LEDGER)

    def open(
        self,
        roles: Collection[str],
        ledger: Ledger,
        say: Callable[[str], None],
        answers: Path | None = None,
    ) -> ByRole:
        """Raises a `ModelError` where a key is missing or a price is not known, before anything is asked.
        Paid answers are kept for all runs, unless in a folder of their own."""
        record = Path(self.record) if self.record else None
        service = Service(record=record, say=say, answers=answers or answer_folder())
        return open_models(self.table(roles), ledger, service)
