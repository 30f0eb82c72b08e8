"""Money and tokens: set aside before a call, settled after, and the same when counted again."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelblaster.models.estimate import Expected, estimate
from kernelblaster.models.failures import BadAnswer, BudgetSpent, ModelError, Unavailable
from kernelblaster.models.ledger import Ledger, ModelBudget, recount
from kernelblaster.models.names import parse_table
from kernelblaster.models.prices import SHIPPED, Prices, TokenPrices, read_prices
from kernelblaster.models.request import TokenUsage
from tests.models.asked import PROTOCOLS, QUESTION, RATES, ROLES, asking, question
from tests.models.server import CACHED, USAGE, Says, Script, Status

GOOD = Says('{"product": 42}')
ONE_USD = ((USAGE[0] - CACHED) * 2.0 + CACHED * 0.5 + USAGE[1] * 10.0) / 1e6
MODEL = "openai:m"


def ledger_with(budget: ModelBudget, path: Path | None = None) -> Ledger:
    return Ledger(Prices({MODEL: RATES}, {}), budget, path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_totals_are_by_role_task_and_step_and_agree_with_a_recount(protocol: str, tmp_path: Path) -> None:
    script = Script(GOOD, Status(500), Says("bad"), GOOD, Says("x", count_tokens=False, stop="length"))
    with asking(protocol, script, tmp_path) as (model, ledger):
        model.ask(QUESTION)
        model.ask(question("two", role="matcher", step="2"))
        with pytest.raises(ModelError):
            model.ask(question("three", task="other"))
        total = ledger.total()
    assert total.calls == 5
    prices = Prices(dict.fromkeys(ledger.totals("model"), RATES), {})
    assert recount(tmp_path / "usage.jsonl", prices) == total
    by_role = ledger.totals("role")
    assert by_role["matcher"].usd == pytest.approx(2 * ONE_USD) and by_role["matcher"].calls == 3
    for by in ("role", "task", "step", "model"):
        parts = ledger.totals(by)  # type: ignore[arg-type]
        assert sum(part.usage.tokens for part in parts.values()) == total.usage.tokens
        assert sum(part.usd for part in parts.values()) == pytest.approx(total.usd)


def test_a_budget_of_tokens_stops_before_it_is_exceeded(tmp_path: Path) -> None:
    script = Script(GOOD)
    budget = ModelBudget(tokens=QUESTION.bound.tokens + 3 * sum(USAGE))
    with asking("openai", script, tmp_path, budget=budget) as (model, ledger):
        with pytest.raises(BudgetSpent, match="Resume with a larger budget"):
            for number in range(100):
                model.ask(question(f"number {number:02}"))
        assert ledger.total().usage.tokens <= budget.tokens
    assert 3 <= len(script.calls) <= 5


def test_a_budget_of_money_stops_before_it_is_exceeded(tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking("openai", script, tmp_path, budget=ModelBudget(usd=0.003)) as (model, ledger):
        with pytest.raises(BudgetSpent, match=r"\$"):
            for number in range(100):
                model.ask(question(f"number {number}"))
        assert 0 < ledger.total().usd <= 0.003
    assert ledger.total().usd == pytest.approx(len(script.calls) * ONE_USD)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_answers_beyond_their_limit_count_with_what_was_read_of_them(protocol: str, tmp_path: Path) -> None:
    script = Script(Says("word " * 20_000))
    budget = ModelBudget(tokens=2 * QUESTION.bound.tokens)
    with asking(protocol, script, tmp_path, budget=budget) as (model, ledger):
        with pytest.raises(BudgetSpent):
            for number in range(100):
                with contextlib.suppress(BadAnswer):
                    model.ask(question(f"number {number:02}"))
        total = ledger.total()
    assert len(script.calls) <= 2, "an answer that takes more than the budget is the last one"
    assert total.usage.tokens > budget.tokens, "and is counted as what it was"


def test_a_spent_budget_goes_on_being_spent_after_a_restart_and_kept_answers_stay_free(
    tmp_path: Path,
) -> None:
    script = Script(GOOD)
    budget = ModelBudget(tokens=QUESTION.bound.tokens)
    with asking("openai", script, tmp_path, budget=budget) as (model, ledger):
        model.ask(QUESTION)
        ledger.close()
        again = Ledger(Prices({}, {}), budget, tmp_path / "usage.jsonl")
        assert again.total().usage.tokens == sum(USAGE)
        with pytest.raises(BudgetSpent):
            again.reserve("openai:x", QUESTION)
        assert model.ask(QUESTION).value.product == 42
    assert len(script.calls) == 1


def test_reservations_side_by_side_never_exceed_the_budget() -> None:
    budget = ModelBudget(tokens=2 * QUESTION.bound.tokens)
    ledger = ledger_with(budget)
    most, held, lock = 0, 0, threading.Lock()

    def call(_: int) -> bool:
        nonlocal most, held
        try:
            reservation = ledger.reserve(MODEL, QUESTION)
        except BudgetSpent:
            return False
        with lock:
            held += 1
            most = max(most, held)
        time.sleep(0.001)
        with lock:
            held -= 1
        ledger.settle(reservation, TokenUsage(tokens_in=1, tokens_out=1))
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(40)))
    assert most <= 2 and ledger.total().usage.tokens == 80


def test_a_call_whose_end_is_unknown_counts_with_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "usage.jsonl"
    first = ledger_with(ModelBudget(), path)
    first.settle(first.reserve(MODEL, QUESTION), None)
    first.reserve(MODEL, QUESTION)
    first.close()
    path.write_bytes(path.read_bytes() + b'{"kind": "used", "numb')
    total = ledger_with(ModelBudget(), path).total()
    assert (total.calls, total.untold) == (2, 2)
    assert total.usage.tokens == 2 * QUESTION.bound.tokens
    assert total.usd == pytest.approx(2 * RATES.most_usd(QUESTION.bound))


def test_a_budget_in_dollars_needs_a_price() -> None:
    with pytest.raises(ModelError, match="openai:unheard-of"):
        ledger_with(ModelBudget(usd=1.0)).reserve("openai:unheard-of", QUESTION)
    unpriced = ledger_with(ModelBudget(tokens=10**6))
    unpriced.settle(unpriced.reserve("openai:unheard-of", QUESTION), TokenUsage(tokens_in=5, tokens_out=5))
    assert unpriced.total().unpriced == 1


def test_nothing_is_spent_by_calls_that_were_turned_away(tmp_path: Path) -> None:
    script = Script(Status(503))
    with asking("openai", script, tmp_path) as (model, ledger), pytest.raises(Unavailable):
        model.ask(QUESTION)
    assert ledger.total().usd == 0 and ledger.total().calls == len(script.calls)


def test_the_shipped_prices_have_dates_and_sources() -> None:
    prices = read_prices()
    assert SHIPPED.is_file()
    for name in prices.models:
        rates, origin = prices.of(name), prices.origin(name)
        assert rates is not None and origin is not None and "https://" in origin and ", 20" in origin
        assert 0 < (rates.cached or rates.input) <= rates.input < rates.output


def test_a_file_of_ones_own_goes_before_the_shipped_prices(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text(
        '[anthropic]\ndate = "2030-01-01"\nsource = "a contract"\n'
        'models."claude-opus-5-5" = { input = 1, output = 2 }\n'
        '[vllm]\ndate = "2030-01-01"\nsource = "our machine"\nmodels."qwen" = { input = 0, output = 0 }\n'
    )
    prices = read_prices(own)
    million = TokenUsage(tokens_in=10**6, tokens_out=10**6)
    assert prices.usd("anthropic:claude-opus-5-5", million) == 3
    assert prices.usd("vllm:qwen", million) == 0
    assert prices.usd("openai:gpt-4.1", million) == 10
    own.write_text("[anthropic]\n")
    with pytest.raises(ModelError, match="not a table of prices"):
        read_prices(own)


def test_long_prompts_and_the_prompt_cache_have_their_own_rates() -> None:
    rates = TokenPrices(input=1, cached=0.1, stored=2, output=4, long_from=100, long_input=2, long_output=3)
    assert (
        rates.usd(TokenUsage(tokens_in=100, tokens_cached=50, tokens_stored=10, tokens_out=10)) * 1e6 == 105
    )
    assert rates.usd(TokenUsage(tokens_in=101, tokens_out=10)) * 1e6 == pytest.approx(322)
    assert rates.most_usd(TokenUsage(tokens_in=100, tokens_out=10)) * 1e6 == pytest.approx(240)


def test_an_estimate_is_calls_times_sizes_by_role() -> None:
    table = parse_table(["openai:m", "matcher=handoff:x"], ROLES)
    expected = [Expected("lowerer", 10, 1000, 500), Expected("matcher", 5, 100, 10)]
    lowerer, matcher = estimate(expected, table, Prices({MODEL: RATES}, {}))
    assert lowerer.usd == pytest.approx(10 * (1000 * 2 + 500 * 10) / 1e6)
    assert lowerer.usage == TokenUsage(tokens_in=10_000, tokens_out=5_000)
    assert matcher.usd == 0
    (unknown,) = estimate(expected[:1], table, Prices({}, {}))
    assert unknown.usd is None


def test_the_bound_covers_every_byte_of_the_prompt_and_the_output_limit() -> None:
    long = question("é" * 1000, output_limit=7)
    assert long.bound.tokens_in > 2000 and long.bound.tokens_out == 7


WRONG = {"negative": "-1.0", "not a number": "nan", "infinite": "inf", "a word": '"much"'}


@pytest.mark.parametrize("price", WRONG.values(), ids=WRONG)
def test_a_price_that_cannot_be_is_refused(price: str, tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text(
        f'[openai]\ndate = "2026-01-01"\nsource = "x"\n[openai.models.m]\ninput = {price}\noutput = 1.0\n'
    )
    with pytest.raises(ModelError, match=r"models\.m\.input"):
        read_prices(own)
