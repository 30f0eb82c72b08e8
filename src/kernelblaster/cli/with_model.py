"""Language models on the command line: the options, the estimate of their cost before a search, and the costs
after it."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelblaster.cli.terminal import Terminal
from kernelblaster.models.choice import LEDGER, ModelChoice
from kernelblaster.models.estimate import Estimate, estimate
from kernelblaster.models.ledger import ModelBudget, Total
from kernelblaster.models.prices import read_prices
from kernelblaster.policies.llm.roles import ROLES
from kernelblaster.search.expected_calls import expected_calls
from kernelblaster.search.model_use import ModelUse, absolute_name, model_use_of
from kernelblaster.search.names import StrategyName
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import Run

if TYPE_CHECKING:
    from kernelblaster.bench.jobs import Job


def _finite(value: float | None) -> float | None:
    """Callback of an option: returns the value; raises BadParameter for NaN and infinity, with which a budget
    would never be used up."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("it should be a number of dollars.")
    return value


StrategyOption = Annotated[
    StrategyName, typer.Option("--strategy", help="How the search is done, see docs/llm.md.")
]
UsdOption = Annotated[
    float | None,
    typer.Option(help="Stop a search before models cost more dollars than this.", min=0, callback=_finite),
]
TokensOption = Annotated[
    int | None, typer.Option(help="Stop a search before models take more tokens.", min=1)
]


@dataclass(frozen=True)
class ModelOptions:
    """Option group (each field becomes an option of a command): which language models take part, in which
    roles, and what they may cost."""

    model: Annotated[
        str | None, typer.Option("--model", help="A language model, KIND:NAME, see docs/models.md.")
    ] = None
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="ROLE=KIND:NAME, ROLE=llm or ROLE=expert; may be given again."),
    ] = None
    usd: UsdOption = None
    tokens: TokensOption = None
    prices: Annotated[
        Path | None, typer.Option(help="A table of prices that goes before the shipped one.")
    ] = None
    record: Annotated[Path | None, typer.Option(help="A folder to keep all answers in, for --replay.")] = None
    replay: Annotated[Path | None, typer.Option(help="A folder with recorded answers; nothing is asked.")] = (
        None
    )

    def use(self, strategy: StrategyName = "maic-rl") -> ModelUse | None:
        """Returns which models take part in a search by `strategy`, and in which roles; None if none does.
        Raises KernelBlasterError for options that contradict each other."""
        return model_use_of(self.choice, self.role or [], strategy)

    @property
    def choice(self) -> ModelChoice:
        """The user's options about models, as a record: names, budgets, files. Relative paths are made
        absolute, because the run may be continued from another folder."""
        return ModelChoice(
            model=self.model and absolute_name(self.model),
            budget=ModelBudget(usd=self.usd, tokens=self.tokens),
            prices=_absolute(self.prices),
            record=_absolute(self.record),
            replay=_absolute(self.replay),
        )


def _absolute(path: Path | None) -> str | None:
    """A path that the user gave, as the text of an absolute one; None stays None."""
    return None if path is None else str(path.absolute())


def expected(model_use: ModelUse, search: Search, searches: int = 1) -> list[Estimate]:
    """Estimates what `searches` searches with the settings `search` will ask of the language models in
    `model_use`: the number of calls, the tokens and the dollars, for each role that a model plays."""
    prices = read_prices(Path(model_use.choice.prices) if model_use.choice.prices else None)
    calls = expected_calls(search, model_use.strategy, model_use.cast)
    each = [replace(one, calls=searches * one.calls) for one in calls]
    return estimate(each, model_use.choice.table(ROLES), prices)


def print_estimates(jobs: "Sequence[Job]") -> None:
    """Prints, on standard error, what all searches in `jobs` together will probably ask of language models:
    calls, tokens and dollars. Prints nothing if no model takes part."""
    kinds = Counter((job.setup.model_use, job.setup.search) for job in jobs if job.setup.model_use)
    if kinds:
        rows = [
            expected(model_use, search, count) for (model_use, search), count in kinds.items() if model_use
        ]
        print_estimate([row for some in rows for row in some])


def print_estimate(rows: Sequence[Estimate]) -> None:
    """Prints estimated calls, tokens and dollars, summed over `rows`, on standard error, because standard
    output is for the result."""
    console = Terminal(stderr=True)
    tokens = sum(row.usage.tokens for row in rows)
    usd = [row.usd for row in rows]
    cost = f"about ${sum(u for u in usd if u is not None):.2f}" if None not in usd else "price not known"
    calls: Counter[str] = Counter()
    for row in rows:
        calls[row.role] += row.calls
    each = ", ".join(f"{role} {count}" for role, count in calls.items())
    console.print(
        f"estimate: {calls.total()} calls ({each}), {tokens / 1e3:.0f} thousand tokens, {cost}; less if it "
        "ends early",
        highlight=False,
        soft_wrap=True,
    )


def bill(model_use: ModelUse, run: Run) -> dict[str, Any]:
    """Returns what the language models of `model_use` cost in `run`, as JSON data: calls, tokens and dollars,
    in all and by role; how many of their answers could not be used, by reason; and the reviews of the result
    that they made. Costs are missing if the run has no record of calls."""
    ledger = model_use.choice.ledger(run.folder) if (run.folder / LEDGER).exists() else None
    failed = Counter(_failure(event.key, event.data) for event in run.events if event.kind == "answer")
    failed.pop("", None)
    reviews = [event.data for event in run.events if event.kind == "review"]
    answers = {"answers_of_no_use": dict(sorted(failed.items())), "reviews": reviews}
    if ledger is None:
        return answers
    try:
        roles = {role: _total_dict(total) for role, total in ledger.totals("role").items()}
        return {**_total_dict(ledger.total()), "by_role": roles, **answers}
    finally:
        ledger.close()


def print_bill(costs: dict[str, Any], print_line: Callable[[str], None]) -> None:
    if "calls" in costs:
        cost = f"${costs['usd']:.4f}" + (f" and {costs['unpriced']} unpriced" if costs["unpriced"] else "")
        guess = " (estimated)" if costs["estimated"] else ""
        print_line(f"  model      {costs['calls']} calls, {costs['tokens']} tokens{guess}, {cost}")
    for failure, count in costs["answers_of_no_use"].items():
        print_line(f"  no use     {failure}: {count}")
    for review in costs["reviews"]:
        print_line(f"  review     {review['verdict']}" + "".join(f"; {f}" for f in review["findings"]))


def _total_dict(total: Total) -> dict[str, Any]:
    return {
        "calls": total.calls,
        "tokens": total.usage.tokens,
        "tokens_in": total.usage.tokens_in,
        "tokens_out": total.usage.tokens_out,
        "tokens_cached": total.usage.tokens_cached,
        "usd": total.usd,
        "unpriced": total.unpriced,
        "estimated": total.estimated,
        "seconds": total.seconds,
    }


def _failure(key: str, data: dict[str, Any]) -> str:
    """Which role got an answer that could not be used, and why, from the `key` and data of the answer's
    event; empty for a usable answer."""
    return "" if data["answer"] is not None else f"{key.partition('/')[0]} {data['failure']}"
