"""Language models: one interface (`Model.ask`) for all providers, and a ledger of what calls cost.

Searches without a model need none of this. The libraries for calling servers are imported only when a model
is opened."""

from kernelblaster.models.factory import Service, open_models
from kernelblaster.models.failures import (
    BadAnswer,
    BudgetSpent,
    Malformed,
    ModelError,
    Refused,
    TooLong,
    Unavailable,
)
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import parse_table
from kernelblaster.models.prices import read_prices
from kernelblaster.models.request import ChatMessage, Model, Reply, Request, TokenUsage

__all__ = [
    "BadAnswer",
    "BudgetSpent",
    "ChatMessage",
    "Ledger",
    "Malformed",
    "Model",
    "ModelBudget",
    "ModelError",
    "Refused",
    "Reply",
    "Request",
    "Service",
    "TokenUsage",
    "TooLong",
    "Unavailable",
    "open_models",
    "parse_table",
    "read_prices",
]
