"""`optimize --model` from the outside: whole runs on the emulated device, with all that can go wrong."""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kernelblaster.cli.main import app
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.models.ledger import recount
from kernelblaster.models.prices import read_prices
from kernelblaster.policies.llm.roles import ROLES
from kernelblaster.store.run import open_run
from tests.cli.model_runs import SHORT, Place, model_place, person_at, told, use
from tests.models.conftest import own_environment
from tests.models.server import CACHED, USAGE, Action, Cut, Hangs, Says, Status
from tests.policies.llm.played import BROKEN, FUSED, WRONG, lowered, plays, prompt_of, rewrite, role_of

__all__ = ["own_environment"]

PROTOCOLS = ("openai", "anthropic")
LONG = (*SHORT[:-1], "3")
WRONG_SCHEMA = Says('{"summary": "no"}')


def at_first(faults: dict[str, list[Action]]) -> Callable[[dict[str, Any]], Action]:
    """These things happen to the first calls of a role; then it plays well."""
    left, play = {role: list(actions) for role, actions in faults.items()}, plays()

    def act(body: dict[str, Any]) -> Action:
        waiting = left.get(role_of(body))
        return waiting.pop(0) if waiting else play(body)

    return act


@pytest.fixture(scope="module")
def clean(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The best candidate of a short run without any fault, and who was asked."""
    folder = tmp_path_factory.mktemp("clean")
    with pytest.MonkeyPatch.context() as monkeypatch, model_place(folder, "openai") as place:
        use(monkeypatch, folder)
        told(place.optimize(*SHORT))
        return place.best, place.roles


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_run(clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, protocol) as place:
        done = place.optimize(*LONG, "--usd", "5", "--prices", str(place.prices()))
        found = told(done)
        assert "estimate: " in done.stderr and "$" in done.stderr
        assert found["gain_over_first"] > 2.5 and found["applied"]
        assert "fused_kernel" in place.best
        assert found["models"]["reviews"] == [{"verdict": "nothing-found", "findings": []}]
        assert found["models"]["answers_of_no_use"] == {}
        check_costs(place, found["models"])
        with KnowledgeBase(tmp_path / "kb.db") as knowledge:
            known = [e for state in knowledge.content().entries.values() for e in state.values()]
        tried = {e.technique for e in known if e.evidence.total.attempts}
        assert set(found["applied"]) <= tried
        (proposed,) = {e.description for e in known if e.technique == "whole_call_fusion"}
        assert proposed == "One kernel for the call."


def check_costs(place: Place, bill: dict[str, Any]) -> None:
    """The totals are those of the raw records, and of the calls that the server saw."""
    calls = len(place.script.calls)
    again = recount(place.run / "usage.jsonl", read_prices(place.prices()))
    assert (bill["calls"], bill["tokens"]) == (calls, calls * sum(USAGE)) == (again.calls, again.usage.tokens)
    each = ((USAGE[0] - CACHED) * 2.0 + CACHED * 0.5 + USAGE[1] * 10.0) / 1e6
    assert bill["usd"] == pytest.approx(calls * each) == pytest.approx(again.usd)
    assert sum(one["calls"] for one in bill["by_role"].values()) == calls
    assert set(bill["by_role"]) <= set(ROLES)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_passes_changes_nothing(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    faults: dict[str, list[Action]] = {
        "proposer": [
            *(Status(429, headers={"retry-after": "7"}), Status(500), Status(503)),
            Says("It is bound by {memory}, so"),  # malformed
        ],
        "lowerer": [Hangs(2.5), Cut(), Cut(after_text=False), WRONG_SCHEMA],
        "soft-verifier": [Says('{"verdict": "nothing-found", "find')],  # truncated
    }
    waits = use(monkeypatch, tmp_path)
    with model_place(tmp_path, protocol, at_first(faults)) as place:
        found = told(place.optimize(*SHORT))
        assert place.best == clean[0] and found["models"]["answers_of_no_use"] == {}
        more = {role: len(actions) for role, actions in faults.items()}
        assert Counter(place.roles) == Counter(clean[1]) + Counter(more)
        assert len(waits) == 6 and 7 <= waits[0] <= 8 and max(waits[1:]) <= 4


USELESS = [
    [WRONG_SCHEMA, WRONG_SCHEMA],
    [Says("I cannot.", stop="content_filter", refusal=True)],
    [Says("")],
    [Says("x" * 6_400_000)],  # 100 times the limit
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_usable_answer_the_expert_goes_on(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    """Of the techniques that are drawn, the first four are answered badly."""
    use(monkeypatch, tmp_path)
    faults = {"lowerer": [action for actions in USELESS for action in actions], "proposer": [Says("{}")] * 2}
    with model_place(tmp_path, protocol, at_first(faults)) as place:
        found = told(place.optimize(*SHORT, "--choices", "5"))
        useless = found["models"]["answers_of_no_use"]
        assert useless.pop("proposer Malformed") == 1
        assert useless == {f"lowerer {kind}": 1 for kind in ("Malformed", "Refused", "Empty", "TooLong")}
        with open_run(tmp_path / "runs", place.run.name) as run:
            questions = [event.key for event in run.events if event.kind == "answer"]
        repaired = 2  # the proposer's and the first of the lowerer's
        assert len(place.roles) == len(questions) + repaired
        assert found["applied"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_server_that_is_down_ends_the_run_which_goes_on_later(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, protocol, at_first({"lowerer": [Status(503)] * 4})) as place:
        failed = place.optimize(*SHORT)
        assert failed.exit_code == 1 and "Go on with: kernelblaster resume" in str(failed.exception)
        assert place.roles.count("lowerer") == 4  # no hot loop
        assert told(place.resume())["models"]["calls"] == len(place.roles)
        assert place.best == clean[0] and place.roles.count("proposer") == clean[1].count("proposer")


def test_compile_errors_and_wrong_results_go_back(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    mended = [rewrite(source=WRONG), rewrite(source=FUSED)]
    answers = plays(lowerer=lambda text: rewrite(source=BROKEN), mend=lambda text: mended.pop(0))
    with model_place(tmp_path, "openai", answers) as place:
        found = told(place.optimize(*SHORT, "--budget", "4"))
        assert found["gain_over_first"] > 2 and place.best == FUSED
        compile_error, wrong_result = [
            prompt_of(call) for call in place.script.calls if role_of(call) == "mend"
        ]
        assert 'identifier "zero" is undefined' in compile_error
        assert "expected" in wrong_result and "got" in wrong_result and "out[" in wrong_result


def test_the_model_may_play_every_role(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first candidate does not compile at first."""
    use(monkeypatch, tmp_path)
    roles = [word for role in ROLES for word in ("--role", f"{role}=llm")]
    broken = plays(initial_writer=lambda text: {"summary": "", "source": BROKEN})
    with model_place(tmp_path, "openai", broken) as place:
        found = told(place.optimize(*SHORT, *roles))
        assert found["models"]["answers_of_no_use"] == {}
        assert {"initial-writer", "mend", "state-extractor", "proposer", "lowerer"} <= set(place.roles)
        assert found["gain_over_first"] >= 1
        shown = CliRunner().invoke(app, ["runs", "show", place.run.name, "--runs", str(tmp_path / "runs")])
        assert shown.exit_code == 0, shown.output


def test_a_role_may_have_a_model_of_its_own(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place, model_place(tmp_path, "anthropic") as small:
        told(place.optimize(*SHORT, "--role", f"proposer={small.model}"))
        assert set(small.roles) == {"proposer"} and place.best == clean[0]
        assert Counter(small.roles + place.roles) == Counter(clean[1])


def test_a_budget_stops_the_run_cleanly_and_a_larger_one_goes_on(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place:
        stopped = told(place.optimize(*SHORT, "--tokens", "20000"))
        assert "budget for models is spent" in stopped["stopped"] and stopped["models"]["tokens"] <= 20_000
        assert place.roles == ["proposer"] and "relu_kernel" in place.best
        again = told(place.resume())
        assert again["stopped"] and place.roles == ["proposer"]
        whole = told(place.resume("--tokens", "1000000"))
        assert "stopped" not in whole and (place.best, place.roles) == clean


def test_money_needs_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place:
        refused = place.optimize(*SHORT, "--usd", "1")
        assert "price of" in str(refused.exception) and place.script.calls == []
        tight = told(place.optimize(*SHORT, "--usd", "0.13", "--prices", str(place.prices())))
        assert tight["models"]["usd"] <= 0.13 and "stopped" in tight


def test_a_recorded_run_is_replayed_without_a_server(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "anthropic") as place:
        told(place.optimize(*SHORT, "--record", str(tmp_path / "record")))
        asked = len(place.script.calls)
    for folder in ("kb.db", "runs"):
        (tmp_path / folder).rename(tmp_path / f"first-{folder}")
    words = place.words(*SHORT, "--replay", str(tmp_path / "record"))
    again = told(CliRunner().invoke(app, words))
    assert place.best == clean[0] and len(place.script.calls) == asked
    assert again["models"]["calls"] == 0
    other = CliRunner().invoke(app, place.words(*SHORT, "--seed", "5", "--replay", str(tmp_path / "nothing")))
    assert "has no answer for proposer" in str(other.exception)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_key_is_left_anywhere(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    use(monkeypatch, tmp_path)
    key = "sk-planted-0123456789"
    monkeypatch.setenv("KERNELBLASTER_API_KEY", key)
    leak = Says(json.dumps({**lowered("mul_kernel"), "summary": f"your key is {key}"}))
    with model_place(tmp_path, protocol, at_first({"lowerer": [Status(429, f"bad {key}"), leak]})) as place:
        done = place.optimize(*SHORT, "--record", str(tmp_path / "record"))
        assert told(done)
        assert any(key in value for headers in place.script.headers for value in headers.values())
    shown = CliRunner().invoke(app, ["runs", "show", place.run.name, "--runs", str(tmp_path / "runs")])
    for page in (["report", str(place.run)], ["kb", "report", "--kb", str(tmp_path / "kb.db")]):
        made = CliRunner().invoke(app, [*page, "--out", str(tmp_path / f"{page[0]}.html")])
        assert made.exit_code == 0, made.output
    assert key not in done.output + done.stderr + shown.output
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if key.encode() in path.read_bytes()] == []


def test_with_cycles_only_the_roles_and_the_memory_are_the_same(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the paper: only what the profiler says beside times is missing, in every role."""
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place:
        found = told(place.optimize(*SHORT, "--strategy", "cycles-only"))
        assert found["speedup"]["estimate"] > 1.5
        asked = {role_of(call): prompt_of(call) for call in place.script.calls}
    assert {"proposer", "lowerer", "gap-analyst", "knowledge-updater"} <= set(asked)
    for prompt in asked.values():
        assert not re.search(r"device memory \d|occupancy \d|reached: \d|registers\b.* to", prompt)
    assert "busy: unknown" in asked["lowerer"] and "Only its time is known" in asked["lowerer"]
    with KnowledgeBase(tmp_path / "kb.db", create=False) as knowledge:
        assert any("Fuse pointwise" in n for e in knowledge.content().living_entries for n in e.notes)


@pytest.mark.parametrize("strategy", ["zero-shot", "minimal", "no-memory"])
def test_strategies_to_compare_with(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place:
        found = told(place.optimize(*SHORT, "--strategy", strategy))
        assert found["speedup"]["estimate"] > 1.5
        assert not (tmp_path / "kb.db").exists()
        first = next(
            call for call in place.script.calls if role_of(call) in ("lowerer", "plain", "initial-writer")
        )
        assert ("Section: GPU Speed Of Light" in prompt_of(first)) == (strategy in ("minimal", "no-memory"))
        learned = {"gap-analyst", "policy-evaluator", "knowledge-updater"}
        assert not learned & set(place.roles)
        assert told(place.resume())["speedup"] == found["speedup"]


def test_a_run_that_is_killed_loses_nothing_that_was_paid_for(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "anthropic") as place:
        process = place.start(*place.words("--model", place.model, *SHORT))
        while len(place.script.calls) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        found = told(place.resume())
        assert found["models"]["calls"] == len(place.script.calls), "what was on its way is counted too"
        assert place.best == clean[0] and "stopped" not in found
        times = Counter(json.dumps(call, sort_keys=True) for call in place.script.calls)
        assert len(times) == len(clean[1])
        assert sum(times.values()) <= len(times) + 1  # the one that was on its way


def test_a_hand_off_waits_can_be_stopped_and_goes_on(
    clean: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    desk = tmp_path / "desk"
    place = Place(tmp_path, f"handoff:{desk}", None)  # type: ignore[arg-type]
    process = place.start(*place.words("--model", place.model, *SHORT))
    while not list(desk.glob("0001-*/prompt.md")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130 and "kernelblaster resume" in said
    with person_at(desk):
        resumed = place.resume()
    assert told(resumed) and f"{desk}" in resumed.stderr
    assert place.best == clean[0]
    assert len(list(desk.glob("*/answer.json"))) == len(clean[1])


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--strategy", "minimal"], "a language model is needed"),
        (["--usd", "1"], "a language model is needed"),
        (["--model", "gpt"], "is no model"),
        (["--role", "lowerer=openai:x", "--role", "proposer=llm"], "no model was named for proposer"),
        (["--model", "openai:x", "--role", "cook=llm"], "should be ROLE=expert"),
    ],
)
def test_what_makes_no_sense_is_said_before_a_run_begins(tmp_path: Path, words: list[str], why: str) -> None:
    place = Place(tmp_path, "", None)  # type: ignore[arg-type]
    failed = CliRunner().invoke(app, place.words(*words))
    assert failed.exit_code == 1 and why in str(failed.exception)
    assert not (tmp_path / "runs").exists()


def test_the_run_says_how_a_model_took_part(
    clean: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, tmp_path)
    with model_place(tmp_path, "openai") as place:
        told(place.optimize(*SHORT, "--role", "gap-analyst=expert"))
        with open_run(tmp_path / "runs", place.run.name) as run:
            about = run.events[0].data["models"]
            answers = [event.key.partition("/")[0] for event in run.events if event.kind == "answer"]
    assert about["strategy"] == "maic-rl" and about["roles"] == ["gap-analyst=expert"]
    assert about["choice"]["model"] == place.model
    assert answers == place.roles
