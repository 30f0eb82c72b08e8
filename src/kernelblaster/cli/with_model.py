"""How `optimize` uses a language model: its options, the estimate before, and the bill after."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from kernelblaster.errors import KernelBlasterError
from kernelblaster.models.choice import LEDGER, Choice
from kernelblaster.models.estimate import Estimate, estimate
from kernelblaster.models.ledger import Budget, Total
from kernelblaster.models.names import FOLDERS
from kernelblaster.models.opening import ByRole
from kernelblaster.models.prices import read_prices
from kernelblaster.policies.llm.roles import ROLES, Cast, cast_of
from kernelblaster.records.record import Record
from kernelblaster.store.run import Run
from kernelblaster.strategies.expected_calls import expected_calls
from kernelblaster.strategies.names import REMEMBERS, StrategyName
from kernelblaster.strategies.search import Search


class ModelOptions:
    """How a model takes part."""

    Model = Annotated[
        str | None, typer.Option("--model", help="A language model, KIND:NAME, see docs/models.md.")
    ]
    Roles = Annotated[
        list[str] | None,
        typer.Option("--role", help="ROLE=KIND:NAME, ROLE=llm or ROLE=expert; may be given again."),
    ]
    Usd = Annotated[float | None, typer.Option(help="Stop before models cost more dollars than this.", min=0)]
    Tokens = Annotated[int | None, typer.Option(help="Stop before models take more tokens.", min=1)]
    Prices = Annotated[Path | None, typer.Option(help="A table of prices that goes before the shipped one.")]
    Record = Annotated[Path | None, typer.Option(help="A folder to keep all answers in, for --replay.")]
    Replay = Annotated[Path | None, typer.Option(help="A folder with recorded answers; nothing is asked.")]
    Strategy = Annotated[
        StrategyName, typer.Option("--strategy", help="How the search is arranged, see docs/llm.md.")
    ]


class Taking(Record):
    """How a model takes part in a run, as the run records it. `roles` as they were given."""

    choice: Choice
    roles: tuple[str, ...]
    strategy: StrategyName

    @property
    def cast(self) -> Cast:
        return self._cast[0]

    @property
    def _cast(self) -> tuple[Cast, list[str]]:
        usual = self.choice.model is not None or self.choice.replay is not None
        return cast_of(self.roles, usual=usual)

    @property
    def remembers(self) -> bool:
        return self.strategy in REMEMBERS

    def allowing(self, usd: float | None, tokens: int | None) -> "Taking":
        """With another budget, where one is given."""
        given = {name: value for name, value in (("usd", usd), ("tokens", tokens)) if value is not None}
        budget = self.choice.budget.model_copy(update=given)
        return self.model_copy(update={"choice": self.choice.model_copy(update={"budget": budget})})


def taking(choice: Choice, roles: Sequence[str], strategy: StrategyName) -> Taking | None:
    """None where no model takes part. Raises where what was asked for makes no sense."""
    if choice.model is None and choice.replay is None and not any("=" in role for role in roles):
        given = strategy != "maic-rl" or choice != Choice() or roles
        if given:
            raise KernelBlasterError("a language model is needed for this: give --model KIND:NAME.")
        return None
    found = Taking(choice=choice, roles=tuple(roles), strategy=strategy)
    cast, named = found._cast
    split = (text.partition("=") for text in named)
    models = tuple(f"{role}={_absolute_name(name)}" for role, _, name in split)
    found = found.model_copy(update={"choice": choice.model_copy(update={"roles": models})})
    table = found.choice.table(ROLES)
    missing = [role for role in ROLES if cast.llm(role) and table.of(role) is None]
    if missing:
        raise KernelBlasterError(f"no model was named for {', '.join(missing)}: give --model KIND:NAME.")
    return found


def absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def choice_of(model: str | None, usd: float | None, tokens: int | None, **paths: Path | None) -> Choice:
    """From the options; folders of hand-off and replay mean the same in every folder."""
    found = {name: absolute(path) for name, path in paths.items()}
    return Choice(model=model and _absolute_name(model), budget=Budget(usd=usd, tokens=tokens), **found)  # type: ignore[arg-type]


def _absolute_name(model: str) -> str:
    kind, _, rest = model.partition(":")
    return f"{kind}:{Path(rest).absolute()}" if kind in FOLDERS and rest else model


def expected(taking: Taking, search: Search) -> list[Estimate]:
    prices = read_prices(Path(taking.choice.prices) if taking.choice.prices else None)
    calls = expected_calls(search, taking.strategy, taking.cast)
    return estimate(calls, taking.choice.table(ROLES), prices)


def print_estimate(rows: Sequence[Estimate]) -> None:
    """On standard error, so that standard output stays the result's."""
    console = Console(stderr=True)
    tokens = sum(row.usage.tokens for row in rows)
    usd = [row.usd for row in rows]
    cost = f"about ${sum(u for u in usd if u is not None):.2f}" if None not in usd else "price not known"
    each = ", ".join(f"{row.role} {row.calls}" for row in rows)
    console.print(
        f"estimate: {sum(row.calls for row in rows)} calls ({each}), {tokens / 1e3:.0f} thousand tokens, "
        f"{cost}; less if it ends early",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def opened(taking: Taking, run: Run, say: Callable[[str], None]) -> Iterator[ByRole]:
    ledger = taking.choice.ledger(run.folder)
    try:
        yield taking.choice.open(ROLES, ledger, say)
    finally:
        ledger.close()


def bill(taking: Taking, run: Run) -> dict[str, Any]:
    """What models took in a run, and how often an answer was of no use, by role."""
    ledger = taking.choice.ledger(run.folder) if (run.folder / LEDGER).exists() else None
    failed = Counter(_failure(event.key, event.data) for event in run.events if event.kind == "answer")
    failed.pop("", None)
    reviews = [event.data for event in run.events if event.kind == "review"]
    told = {"answers_of_no_use": dict(sorted(failed.items())), "reviews": reviews}
    if ledger is None:
        return told
    try:
        roles = {role: _told(total) for role, total in ledger.totals("role").items()}
        return {**_told(ledger.total()), "by_role": roles, **told}
    finally:
        ledger.close()


def print_bill(told: dict[str, Any], print_line: Callable[[str], None]) -> None:
    if "calls" in told:
        cost = f"${told['usd']:.4f}" + (f" and {told['unpriced']} unpriced" if told["unpriced"] else "")
        print_line(f"  model      {told['calls']} calls, {told['tokens']} tokens, {cost}")
    for failure, count in told["answers_of_no_use"].items():
        print_line(f"  no use     {failure}: {count}")
    for review in told["reviews"]:
        print_line(f"  review     {review['verdict']}" + "".join(f"; {f}" for f in review["findings"]))


def _told(total: Total) -> dict[str, Any]:
    return {
        "calls": total.calls,
        "tokens": total.usage.tokens,
        "tokens_in": total.usage.tokens_in,
        "tokens_out": total.usage.tokens_out,
        "tokens_cached": total.usage.tokens_cached,
        "usd": total.usd,
        "unpriced": total.unpriced,
    }


def _failure(key: str, data: dict[str, Any]) -> str:
    return "" if data["answer"] is not None else f"{key.partition('/')[0]} {data['failure']}"


def taking_of(about: dict[str, Any]) -> Taking | None:
    """How a model takes part in a run, from the run's first event."""
    kept = about.get("models")
    return Taking.model_validate_json(json.dumps(kept)) if kept else None
