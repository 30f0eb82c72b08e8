"""Every page, of runs that are whole, half written, damaged, old or hostile: what is there is shown as text,
and nothing else happens."""

import json
import re
import shutil
import zlib
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
from kernelblaster.records import Optimization, State
from kernelblaster.serve import catalog
from kernelblaster.store.history import UNLIMITED
from kernelblaster.store.run import LOG, Run, open_run
from kernelblaster.store.steering import (
    STEERED,
    ForbidTechnique,
    LeaveNote,
    PinTechnique,
    SetBudget,
    append_command,
)
from kernelblaster.testing.made_bench import made_bench
from tests.report.made_run import MadeRun, made_run
from tests.report.test_hostile_names import SCRIPT, Reading
from tests.report.test_run_page import text_of as plain_text_of
from tests.serve.site import client_of, dashboard_of

HUGE = "x" * 300_000
OUTCOMES = [("Slower", 125.0), ("Accepted", 50.0), ("CompileFailed", 999.0), ("Accepted", 25.0)]


def text_of(page: str) -> str:
    """What a reader sees; where a name may break does not matter."""
    return plain_text_of(page.replace("<wbr>", ""))


def test_a_list_of_runs_has_what_is_known_of_each(tmp_path: Path) -> None:
    made_run(tmp_path / "20260101-a", OUTCOMES)
    made_run(tmp_path / "20260102-b", [("Slower", 125.0)], ended=False, task="core/level2/other")
    client = client_of(dashboard_of(tmp_path))
    text = text_of(client.get("/").text)
    assert "2 runs: 1 finished, 1 interrupted" in text
    assert "core/level1/scale" in text and "4.00x modelled" in text and "80% of light" in text
    assert "4 / 9 1 failed" in text and "0.8x modelled" in text
    assert client.get("/").text.count('class="line s-good"') == 2, "a small plot each"


def test_the_list_is_filtered_and_sorted(tmp_path: Path) -> None:
    for number in range(5):
        made_run(
            tmp_path / f"r{number}", [("Accepted", 50.0 - 5 * number)], task=f"t/{number}", ended=number != 2
        )
    client = client_of(dashboard_of(tmp_path))

    def names(query: str) -> list[str]:
        return re.findall(r'id="run:(\w+)"', client.get(f"/rows?{query}").text)

    assert names("q=t/3") == ["r3"] and names("q=nothing") == []
    assert names("state=interrupted") == ["r2"] and names("sort=speedup") == ["r4", "r3", "r2", "r1", "r0"]
    assert len(names("q=%22%3E%3Cscript")) == 0 and len(names("sort=<b>&state=")) == 5
    assert re.findall(r'id="run:(\w+)"', client.get("/?q=t/3").text) == ["r3"]


def test_a_run_has_its_verdict_tree_source_and_what_was_learned(tmp_path: Path) -> None:
    made_run(tmp_path / "r", OUTCOMES)
    client = client_of(dashboard_of(tmp_path))
    page = client.get("/runs/r").text
    text = text_of(page)
    assert "4.00x modelled Faster than eager PyTorch" in text and "finished" in text
    assert page.count('class="branch') == 4 and "Resume" in text and ">Stop<" not in page
    assert "What was learned" in text and "kernelblaster optimize core/level1/scale" in text
    step = re.findall(r'data-load="([^"]+)"', page)[1]
    detail = client.get(step).text
    assert "Why it was tried" in detail and "time in kernels: from" in unescape(detail)
    before, after = re.findall(r'data-before="(\w+)" data-after="(\w+)"', detail)[0]
    source = client.get(f"/runs/r/sources/{after}")
    assert "version 1" in source.text and source.headers["content-type"].startswith("text/plain")
    assert "immutable" in source.headers["cache-control"] and before != after
    assert client.get("/runs/r/report.html").headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "path",
    [
        "/runs/none",
        "/runs/..%2f..%2fetc",
        "/runs/r/steps/none",
        "/runs/r/sources/none",
        "/runs/r/sources/..%2f..%2fevents.jsonl",
        f"/runs/r/sources/{'0' * 32}",
        "/runs/r/exchanges/99999",
        "/compare?a=r&b=none",
        "/compare",
        "/benches/none",
        "/knowledge/none",
        "/live?topic=run/none",
        "/live?topic=knowledge//etc/passwd",
        "/static/none",
        "/static/..%2fapp.py",
        "/%00",
    ],
)
def test_what_is_not_there_is_not_found(tmp_path: Path, path: str) -> None:
    made_run(tmp_path / "r", OUTCOMES)
    reply = client_of(dashboard_of(tmp_path)).get(path)
    assert reply.status_code == 404 and "kernelblaster" not in reply.text.split("<body")[0].lower()[200:300]


def test_a_search_that_runs_can_be_stopped_and_one_that_does_not_resumed(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.judge("Slower", 125.0)
    made.run.once("batch", "0/0", lambda: {"granted": 2, "seconds": 1.0, "trials": [_trial(made)]})
    dashboard = dashboard_of(tmp_path)
    client = client_of(dashboard)
    text = text_of(client.get("/runs/r").text)
    assert "running" in text and "Stop" in text and "Kill" in text and "Resume" not in text
    assert "judging candidate 1 of 2 in this step" in text
    assert "tiling" in text and "judging" in text, "what is being judged is in the tree already"
    made.close()
    text = text_of(client.get("/runs/r").text)
    assert "interrupted" in text and "Resume" in text and "not judged" in text


def _trial(made: MadeRun) -> dict[str, Any]:
    """What a search records of a candidate that it gives to the judge, made from the last one."""
    parent = next(e.data["evaluation"]["candidate"] for e in made.run.events[::-1] if e.kind == "evaluation")
    about = {"id": "0/0/0/0", "state": "latency", "technique": "tiling", "predicted": 1.3, "code": "c" * 16}
    return about | {"parent": parent}


def test_what_was_asked_of_a_search_is_shown(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "r", OUTCOMES, ended=False)
    for action in (PinTechnique(technique="a"), ForbidTechnique(technique="b"), SetBudget(evaluations=40)):
        append_command(folder, action, "dashboard")
    append_command(folder, LeaveNote(text=SCRIPT), "me")
    (folder / "steering.jsonl").open("a").write("nonsense\n")
    page = client_of(dashboard_of(tmp_path)).get("/runs/r").text
    text = text_of(page)
    assert "pinned: a" in text and "forbidden: b" in text and "of 40" in text and "waiting" in text
    assert "line 5 is no command" in text and "<img src=x" not in page


def test_a_page_is_whole_while_the_list_is_still_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeRun(tmp_path / "r", models={"lowerer": {"model": "m"}})
    made.ask("lowerer/a", "the prompt", {"summary": "s"})
    made.judge("Accepted")
    made.close()
    monkeypatch.setattr(catalog, "BURST_S", -1.0)
    page = client_of(dashboard_of(tmp_path)).get("/runs/r").text
    assert "<title>core/level1/scale" in page and 'data-load="/runs/r/exchanges/' in page


def test_a_list_does_not_wait_for_the_thread_that_reads(tmp_path: Path) -> None:
    made_run(tmp_path / "r", OUTCOMES)
    dashboard = dashboard_of(tmp_path)
    client = client_of(dashboard)
    with dashboard.catalog._lock:
        assert "core/level1/scale" in text_of(client.get("/").text)


def test_a_budget_that_the_search_took_is_everywhere(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.judge("Accepted")
    made.run.append(STEERED, commands=[{"id": "1", "action": {"kind": "budget", "evaluations": 40}}])
    made.close()
    text = text_of(client_of(dashboard_of(tmp_path)).get("/runs/r").text)
    assert "1 candidate of at most 40" in text and "of at most 9" not in text


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    made_run(tmp_path / "a", OUTCOMES)
    made_run(tmp_path / "b", [("Slower", 125.0), ("Accepted", 40.0)], ended=False, technique="tiling")
    text = text_of(client_of(dashboard_of(tmp_path)).get("/compare?a=a&b=b").text)
    assert "A a finished" in text and "B b interrupted" in text
    assert "4.00x" in text and "2.50x" in text and "tiling" in text and "unrolling" in text


def test_a_run_of_an_agent_has_no_limit_and_no_search_to_steer(tmp_path: Path) -> None:
    unlimited = {"evaluations": UNLIMITED, "seed": 0}
    made_run(tmp_path / "r", [("Slower", 125.0), ("Accepted", 25.0)], search=unlimited, by="agent")
    client = client_of(dashboard_of(tmp_path))
    for path in ("/", "/runs/r"):
        assert str(UNLIMITED) not in client.get(path).text
    page = text_of(client.get("/runs/r").text)
    assert "come from an agent" in page and "Resume" not in page and "candidates in all" not in page
    assert "kernelblaster evaluate core/level1/scale best.cu --gpu h200" in page.replace(
        "--device emulated ", ""
    )


def test_a_bench_that_was_made_a_moment_ago_has_a_page(tmp_path: Path) -> None:
    client = client_of(dashboard_of(tmp_path))
    assert client.get("/benches/bench").status_code == 404
    made_bench(tmp_path / "bench", tasks=2, steps=2).close()
    made_run(tmp_path / "a", [("Accepted", 50.0)])
    made_run(tmp_path / "b", [("Accepted", 25.0)])
    for path in ("/benches/bench", "/compare?a=a&b=b", "/runs/a"):
        assert client.get(path).status_code == 200, path


def test_a_bench_fills_its_table(tmp_path: Path) -> None:
    made_bench(tmp_path / "bench", tasks=9, steps=4).close()
    dashboard = dashboard_of(tmp_path)
    client = client_of(dashboard)
    assert "bench" in text_of(client.get("/benches").text)
    page = client.get("/benches/bench").text
    text = text_of(page)
    assert "9 of 9 tasks are done" in text and "made/level1/task_0" in text and "uncovered" in text
    assert page.count('id="job:') == 9 and 'data-figure="use"' in page
    run = re.findall(r'href="(/runs/[^"]+)"', page)[0]
    assert client.get(run).status_code == 200
    log = tmp_path / "bench" / LOG
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:8]))
    dashboard.catalog.poll(now=True)
    text = text_of(client_of(dashboard_of(tmp_path)).get("/benches/bench").text)
    assert "1 of 9 tasks are done" in text


def test_a_knowledge_base_with_what_was_learned_today_and_filters(tmp_path: Path) -> None:
    file = tmp_path / "kb.db"
    with KnowledgeBase(file) as knowledge:
        plant(knowledge)
        modelled = Provenance(run="r1", architecture="sm_90a (modelled)", gpu="h200", family="rows")
        measured = Provenance(run="r2", architecture="sm_80", gpu="a100", family="pointwise")
        for gain in (0.5, 0.6):
            knowledge.observe("latency", "vectorized_memory_access", gain, modelled)
        knowledge.observe("latency", "unrolling", 0.9, measured)
    client = client_of(dashboard_of(tmp_path, knowledge={"kb.db": str(file)}))
    assert client.get("/knowledge").headers["location"] == "/knowledge/kb.db"
    page = client.get("/knowledge/kb.db").text
    text = text_of(page)
    assert "what 2 runs on a100, h200 (modelled) taught" in text
    assert "Learned today technique" in text and 'id="state-latency"' in page
    only = client.get("/knowledge/kb.db?gpu=sm_80").text
    assert "sm_80 2.46x" in only and "sm_90a" not in only.partition('id="states"')[2]
    by_model = client.get("/knowledge/kb.db?clock=modelled&family=rows").text.partition('id="states"')[2]
    assert "sm_90a (modelled)" in by_model and "sm_80" not in by_model
    assert "No figure is made of measured and modelled attempts together" in text


def test_a_knowledge_base_is_only_read(tmp_path: Path) -> None:
    file = tmp_path / "kb.db"
    with KnowledgeBase(file) as knowledge:
        plant(knowledge)
        client = client_of(
            dashboard_of(tmp_path, knowledge={"kb.db": str(file), "gone": str(tmp_path / "no.db")})
        )
        before = sorted(path.name for path in tmp_path.iterdir())
        assert client.get("/knowledge/kb.db").status_code == 200
        knowledge.observe("latency", "unrolling", 0.1)
        assert "there is no such knowledge base" in client.get("/knowledge/gone").text
    assert "kb.db" in before and not (tmp_path / "no.db").exists()
    (tmp_path / "broken.db").write_bytes(b"not a database" * 100)
    client = client_of(dashboard_of(tmp_path, knowledge={"b": str(tmp_path / "broken.db")}))
    assert "is damaged, or not a knowledge base" in client.get("/knowledge/b").text


# Damage


def test_damaged_runs_are_named_and_the_others_are_shown(tmp_path: Path) -> None:
    for name in "abcdef":
        made_run(tmp_path / name, OUTCOMES)
    log = {name: tmp_path / name / LOG for name in "abcdef"}
    log["a"].write_bytes(log["a"].read_bytes().replace(b'"Slower"', b'"Sl0wer"', 1))
    log["b"].write_bytes(b"")
    log["c"].write_bytes(b"\x00\xff" * 1000)
    log["d"].write_bytes(log["d"].read_bytes()[:-40])
    log["e"].write_text('{"format": 99, "number": 0}\n')
    client = client_of(dashboard_of(tmp_path))
    text = text_of(client.get("/").text)
    assert "damaged" in text and "core/level1/scale" in text
    for name in "abcdef":
        reply = client.get(f"/runs/{name}")
        assert reply.status_code == 200, name
    assert "line 4 is damaged; the 3 before it are whole" in client.get("/runs/a").text
    assert "newer than this version" in client.get("/runs/e").text


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("evaluation", {}),
        ("evaluation", {"source": 3, "evaluation": None}),
        ("evaluation", {"source": "x", "evaluation": {"outcome": {}, "timing": 7}}),
        ("steps", {"steps": "no list"}),
        ("steps", {"steps": [{"id": "bad"}]}),
        ("results", {"best": None}),
        ("choice", {"options": None}),
        ("proposals", {}),
        ("batch", {"granted": "many", "trials": [{}]}),
        ("steering", {"commands": [1]}),
        ("update", {"gaps": 3}),
        ("question", {"messages": 9}),
        ("answer", {"answer": 9}),
        ("profile", {"profile": {"kernels": 3}}),
        ("unheard of", {"x": [1, {"y": None}]}),
    ],
)
def test_events_that_nobody_expects_are_said_and_not_fatal(
    tmp_path: Path, kind: str, data: dict[str, Any]
) -> None:
    folder = made_run(tmp_path / "r", OUTCOMES, ended=False)
    made_run(tmp_path / "other", OUTCOMES)
    with Run(folder, writing=True) as run:
        run._log.append(kind, "strange", **data)
    client = client_of(dashboard_of(tmp_path))
    assert client.get("/").status_code == 200 and "core/level1/scale" in text_of(client.get("/").text)
    assert client.get("/runs/r").status_code == 200
    assert client.get("/compare?a=r&b=other").status_code == 200
    assert client.get("/runs/other").text.count('class="branch') == 4


def test_runs_of_earlier_versions_are_shown(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "old", OUTCOMES)
    events = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
    lines = []
    for event in events:
        kept = {name: event[name] for name in ("number", "at", "kind", "key", "data") if name in event}
        text = json.dumps(kept, separators=(",", ":"))
        lines.append(f"{zlib.crc32(text.encode()):08x} {text}\n")
    (folder / LOG).write_text("".join(lines))
    client = client_of(dashboard_of(tmp_path))
    assert "4.00x" in text_of(client.get("/").text) and "Faster than eager" in client.get("/runs/old").text


def test_folders_appear_and_vanish(tmp_path: Path) -> None:
    dashboard = dashboard_of(tmp_path)
    client = client_of(dashboard)
    assert "There are no runs yet" in text_of(client.get("/").text)
    made_run(tmp_path / "r", OUTCOMES)
    assert client.get("/runs/r").status_code == 200, "a new one is found when it is asked for"
    assert "1 run: 1 finished" in text_of(client.get("/").text)
    shutil.rmtree(tmp_path / "r")
    dashboard.catalog.poll(now=True)
    assert client.get("/runs/r").status_code == 404 and "There are no runs yet" in client.get("/").text
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / LOG).touch()
    for _ in range(3):
        dashboard.catalog.poll(now=True)
        assert client.get("/").status_code == 200


def test_a_lost_source_is_no_lost_page(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "r", OUTCOMES)
    shutil.rmtree(folder / "files")
    client = client_of(dashboard_of(tmp_path))
    assert client.get("/runs/r").status_code == 200 and client.get("/compare?a=r&b=r").status_code == 200


# Hostile texts


def hostile_run(folder: Path, text: str) -> Path:
    models = {"choice": {"model": text}, "strategy": text}
    made = MadeRun(folder, task=text, technique=text[:190], kb=f"/{text}.db", gpu=text, models=models)
    first = made.judge("Slower", 125.0, source=text)
    made.ask(f"lowerer/{first}/scale/{text}", text, {"summary": text, "source": f"{text}\n{text}"})
    made.ask(text or "x", text, {text or "x": text})
    made.judge("Incorrect", reason=text, evidence=text, state=text)
    made.end(made.judge("Accepted", 25.0, state=text), sentence=text, state=text)
    return made.close()


CONTROLS = "\x00\x01\x1b[31m\x07\u202e\u2066\x85\ud7ff" + "\r\n\t"


@pytest.mark.parametrize(
    "text", [SCRIPT, CONTROLS, "'\"`<>&{{7*7}}{%raw%}${x}", HUGE], ids=["script", "controls", "marks", "huge"]
)
def test_nothing_that_a_run_says_is_run_or_hides(tmp_path: Path, text: str) -> None:
    hostile_run(tmp_path / "r", text)
    hostile_run(tmp_path / "s", text[::-1] if text == CONTROLS else text)
    client = client_of(dashboard_of(tmp_path))
    page = client.get("/runs/r").text
    loads = [unescape(load) for load in re.findall(r'data-load="([^"]+)"', page)]
    assert len(loads) > 3
    texts = {path: client.get(path) for path in ("/", "/rows", "/compare?a=r&b=s", *dict.fromkeys(loads[:8]))}
    assert all(reply.status_code in (200, 404) for reply in texts.values())
    for path, html in [("/runs/r", page), *((path, reply.text) for path, reply in texts.items())]:
        reading = Reading()
        reading.feed(html)
        assert reading.run == [] and "<img src=x" not in html, path
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202e\u2066]", html), path
    assert len(client.get("/").text) < 200_000, "a list stays short, whatever is in it"
    assert len(page) < 500_000 and len(client.get("/compare?a=r&b=s").text) < 200_000


def test_hostile_names_of_folders_and_states(tmp_path: Path) -> None:
    strange = [
        "<img src=x onerror=planted()>",
        "..hidden",
        "a b&c=d#e?f",
        "\u202ereversed",
        "x" * 200,
        "100%",
    ]
    for name in strange:
        made_run(tmp_path / name, OUTCOMES)
    client = client_of(dashboard_of(tmp_path))
    page = client.get("/").text
    assert "<img src=x" not in page and page.count('<tr id="run:') == len(strange)
    for href in re.findall(r'href="(/runs/[^"]+)"', page):
        assert client.get(unescape(href)).status_code == 200, href
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        state = State(name=f"s{SCRIPT}", primary="latency", secondary=(SCRIPT,), description=SCRIPT)
        knowledge.add_state(state)
        knowledge.add_optimization(
            state.name, Optimization(technique=f"t{SCRIPT}", title=SCRIPT, description=SCRIPT, predicted=1.5)
        )
        knowledge.observe(
            state.name, f"t{SCRIPT}", 0.3, Provenance(family=SCRIPT, architecture=SCRIPT, gpu=SCRIPT)
        )
    html = (
        client_of(dashboard_of(tmp_path, knowledge={"k": str(tmp_path / "kb.db")})).get("/knowledge/k").text
    )
    reading = Reading()
    reading.feed(html)
    assert reading.run == [] and "<img src=x" not in html and "planted()" in html


def test_a_report_can_be_downloaded_even_where_the_log_is_damaged_it_says_why(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "r", OUTCOMES)
    client = client_of(dashboard_of(tmp_path))
    assert client.get("/runs/r/report.html").status_code == 200
    (folder / LOG).write_bytes(b"junk\n")
    reply = client.get("/runs/r/report.html")
    assert reply.status_code == 409 and "damaged" in reply.text


def test_prompts_and_answers_are_loaded_when_they_are_unfolded(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r", models={"choice": {"model": "m"}, "strategy": "maic-rl"})
    first = made.judge("Slower", 125.0)
    made.ask(
        "proposer/scale/latency",
        "propose something",
        {"proposals": [{"technique": "unrolling", "reason": "it waits"}]},
    )
    made.ask(f"lowerer/{first}/scale/unrolling", "apply it", {"summary": "done", "source": "int x;\nint y;"})
    made.ask("gap-analyst/0", "why?", None)
    made.end(made.judge("Accepted", 25.0))
    made.close()
    ledger = [
        {"kind": "reserved", "number": 0, "model": "m", "request": "r", "role": "lowerer", "task": "t",
         "step": "s", "bound": {"tokens_in": 1000, "tokens_out": 500}, "most_usd": None},
        {"kind": "used", "number": 0, "usage": {"tokens_in": 900, "tokens_out": 70}, "usd": None,
         "told": True},
    ]  # fmt: skip
    (tmp_path / "r" / "usage.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in ledger) + '{"kind": "res'
    )
    client = client_of(dashboard_of(tmp_path))
    page = client.get("/runs/r").text
    text = text_of(page)
    assert "propose something" not in page and "int x;" not in page, "prompts are folded, and not loaded"
    assert "Costs by role" in text and "lowerer 1 900 0 70 unknown" in text
    assert "3 questions, 2 answered" in text and "not answered yet" in text
    loads = [unescape(one) for one in re.findall(r'data-load="([^"]+exchanges[^"]+)"', page)]
    loads += [unescape(one) for load in re.findall(r'data-load="([^"]+steps[^"]+)"', page)
              for one in re.findall(r'data-load="([^"]+)"', client.get(load).text)]  # fmt: skip
    texts = "".join(client.get(load).text for load in loads)
    assert (
        "propose something" in texts
        and "apply it" in texts
        and 'data-language="cuda"' in texts
        and "why?" in texts
    )
    step = client.get(re.findall(r'data-load="([^"]+steps[^"]+)"', page)[-1]).text
    assert "The model that proposed it said: it waits" in unescape(step)


def test_the_tree_is_the_same_as_in_the_report(tmp_path: Path) -> None:
    """One source for both: the lines and what they unfold to."""
    from kernelblaster.report.run.page import run_page

    folder = made_run(tmp_path / "r", OUTCOMES)
    static = run_page(folder, tmp_path)
    client = client_of(dashboard_of(tmp_path))
    page = client.get("/runs/r").text
    for row in re.findall(r'<span class="gain">.*?</span>\n<span class="speed">.*?</span>', page, re.DOTALL):
        assert row in static
    for load in re.findall(r'data-load="([^"]+steps[^"]+)"', page):
        detail = client.get(load).text.strip()
        assert detail.partition("<h4>What changed in the source")[0] in static


def test_runs_that_are_open_elsewhere_can_still_be_written(tmp_path: Path) -> None:
    made_run(tmp_path / "r", OUTCOMES, ended=False)
    client = client_of(dashboard_of(tmp_path))
    client.get("/runs/r")
    with open_run(tmp_path, "r", writing=True) as run:
        client.get("/runs/r")
        run.append("note")
    assert client.get("/runs/r").status_code == 200


def test_a_page_does_not_wait_for_logs_that_are_read_for_the_first_time(tmp_path: Path) -> None:
    for number in range(6):
        made_run(tmp_path / f"r{number}", [("Accepted", 50.0)])
    made = catalog.Catalog([tmp_path])
    with made.making_page():
        assert made.poll(now=True), "there is more to read"
        assert sum(one.read for one in made.runs()) == 1, "one log at a time"
        assert made.poll(now=True) and sum(one.read for one in made.runs()) == 2
    assert not made.poll(now=True) and not made.reading
