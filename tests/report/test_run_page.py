"""The page of a run: the verdict first, and nothing that is not so."""

import base64
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelblaster.knowledge import KnowledgeBase, plant
from kernelblaster.report.knowledge_page import knowledge_page
from kernelblaster.report.run.command import repeat_command
from kernelblaster.report.run.facts import worked_seconds
from kernelblaster.report.run.page import run_page
from kernelblaster.report.writing import read, write
from kernelblaster.store.events import RunEvent
from tests.report.made_run import MadeRun, made_run
from tests.report.test_hostile_names import SCRIPT, Reading


class Text(HTMLParser):
    """What a reader sees, in one line; style and script left out."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script", "title")
        if tag not in ("i", "code"):
            self.seen.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script", "title")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.seen.append(data)


def text_of(page: str) -> str:
    reading = Text()
    reading.feed(page)
    return " ".join("".join(reading.seen).split())


@pytest.fixture(autouse=True)
def not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)


def shown(folder: Path) -> str:
    return text_of(run_page(folder, folder))


def test_a_faster_one_says_how_much_and_how_sure(tmp_path: Path) -> None:
    found = shown(made_run(tmp_path / "r", [("Slower", 125.0), ("Accepted", 25.0)]))
    assert "4.00x modelled Faster than eager PyTorch" in found
    assert "between 2.67x and 6.00x by the model's own error" in found
    assert "5.00x modelled over the first candidate" in found
    assert "times modelled, not measured" in found and "float32" in found
    assert "2 candidates of at most 9" in found and "80% of the speed of light" in found


def test_a_measured_one_does_not_say_modelled(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r", device="cuda")
    made.end(made.judge("Accepted", 50.0, modelled=False))
    found = shown(made.close())
    assert "with 99% confidence" in found and "modelled" not in found


@pytest.mark.parametrize("outcome", ["Inconclusive", "Slower"])
def test_without_an_accepted_candidate_nothing_is_called_faster(outcome: str, tmp_path: Path) -> None:
    found = shown(made_run(tmp_path / "r", [(outcome, 80.0)]))
    assert "Nothing faster was found" in found
    assert "Faster than" not in found and "100%" not in found


def test_what_has_not_ended_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    found = shown(made_run(tmp_path / "r", [("Inconclusive", 90.0), ("Accepted", 25.0)], ended=False))
    assert "Unfinished. So far: faster than eager PyTorch" in found
    assert "kernelblaster resume r" in found and "The best candidate so far" in found


def test_a_run_without_a_correct_candidate_yet(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    assert "Unfinished: nothing was judged yet" in shown(tmp_path / "r")
    made.judge("CompileFailed", reason="expected a ;", log="error: 7")
    found = shown(made.close())
    assert "Unfinished: nothing correct so far" in found and "expected a ;" in found


def test_the_source_can_be_downloaded_as_it_is(tmp_path: Path) -> None:
    source = "// caf\u00e9\r\n__global__ void f() {}\r\n"
    made = MadeRun(tmp_path / "r")
    made.end(made.judge("Accepted", source=source))
    page = run_page(made.close(), tmp_path)
    data = re.search(r'id="best" href="data:[^,]*;base64,([^"]*)" download="scale.cu"', page)
    assert data is not None and base64.b64decode(unescape(data[1])).decode() == source
    assert 'id="reference"' in page and 'data-language="python"' in page and "class Model(" in page


def test_a_rule_without_words_is_not_told_as_another(tmp_path: Path) -> None:
    run = made_run(
        tmp_path / "r", [("Slower", 125.0), ("Accepted", 25.0)], search={"selection": "unheard-of"}
    )
    assert "unrolling was drawn among them." in text_of(run_page(run, tmp_path))


def test_a_step_says_why_and_what_changed(tmp_path: Path) -> None:
    page = run_page(made_run(tmp_path / "r", [("Slower", 125.0), ("Accepted", 25.0)]), tmp_path)
    found = text_of(page)
    assert "scale took 50% of the time; its state was latency (nothing is saturated" in found
    assert "In that state these apply: unrolling, fast_math." in found
    assert "unrolling was drawn among them with a chance that grows with the gain that is expected" in found
    assert "Expected: 1.20x, a guess from other states: it was new in this one." in found
    assert "Why it went otherwise than expected it was bound by memory" in found
    assert "time in kernels: from 125 us to 25 us (-80%)" in found.replace("\N{NO-BREAK SPACE}", " ")
    assert "use of device memory's bandwidth: from 16% to 80%" in found
    before, after = re.findall(r'data-before="(\w+)" data-after="(\w+)"', page)[0]
    sources = json.loads(re.findall(r'id="sources">(.*?)</script>', page)[0])
    assert "version 0" in sources[before] and "version 1" in sources[after]
    assert "In the knowledge base team.db: unrolling in latency." in found


def test_what_a_model_was_asked_is_with_its_candidate(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.ask("initial-writer/draft0", "write a kernel", {"summary": "plain", "source": "int x;\nint y;"})
    first = made.judge("Slower", 125.0)
    made.ask(
        "proposer/scale/latency", "propose", {"proposals": [{"technique": "unrolling", "reason": "it waits"}]}
    )
    made.ask(f"lowerer/{first}/scale/unrolling", "apply it", {"summary": "done"})
    made.ask("gap-analyst/0", "why?", None)
    made.end(made.judge("Accepted", 25.0))
    page = run_page(made.close(), tmp_path)
    steps, _, others = page.partition('<section id="asked">')
    assert "write a kernel" in steps and "apply it" in steps and "int x;\nint y;" in steps
    assert "The model that proposed it said: it waits" in steps
    assert "propose" in others and "why?" in others and "not answered yet" in others


def test_a_page_runs_nothing_that_a_run_says(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r", task=SCRIPT, technique=SCRIPT, kb=f"/{SCRIPT}.db", gpu=SCRIPT)
    first = made.judge("Slower", 125.0, source=SCRIPT)
    made.ask(f"lowerer/{first}/scale/{SCRIPT}", SCRIPT, {"summary": SCRIPT, "source": f"{SCRIPT}\n{SCRIPT}"})
    made.ask(SCRIPT, SCRIPT, {SCRIPT: SCRIPT})
    made.judge("Incorrect", reason=SCRIPT, evidence=SCRIPT, state=SCRIPT)
    made.end(made.judge("Accepted", 25.0, state=SCRIPT), sentence=SCRIPT, state=SCRIPT)
    page = run_page(made.close(), tmp_path, SCRIPT)
    reading = Reading()
    reading.feed(page)
    assert reading.run == [] and "<img src=x" not in page and page.count("planted()") > 20


def test_a_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = run_page(made_run(tmp_path / "r", [("Accepted", 25.0)]), tmp_path)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "@import" not in page and "url(" not in page


def test_a_run_links_to_the_page_of_its_knowledge_base(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "r", [("Slower", 125.0), ("Accepted", 25.0)], kb=str(tmp_path / "team.db"))
    with KnowledgeBase(tmp_path / "team.db") as knowledge:
        plant(knowledge)
        (tmp_path / "knowledge.html").write_text(knowledge_page(knowledge))
    page = run_page(folder, tmp_path)
    assert 'href="knowledge.html#technique-latency--unrolling"' in page
    assert 'id="technique-latency--unrolling"' in (tmp_path / "knowledge.html").read_text()
    other = made_run(tmp_path / "o", [("Slower", 125.0), ("Accepted", 25.0)], kb="/else/where.db")
    assert "knowledge.html" not in run_page(other, tmp_path)


def test_the_command_has_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    about = {"task": "my file.py", "device": "cuda", "gpu": None, "dtype": "float16", "kb": "/home/me/a b.db"}
    about |= {"search": {"evaluations": 4, "seed": 0, "wall_seconds": 60.0}}
    about |= {"models": {"choice": {"model": "openai:x", "budget": {"usd": 2.0}}, "strategy": "zero-shot"}}
    assert repeat_command(about) == (
        "kernelblaster optimize 'my file.py' --device cuda --dtype float16 --budget 4 --seconds 60 "
        "--model openai:x --usd 2.0 --strategy zero-shot --kb ~/'a b.db'"
    )


def test_pauses_between_resumptions_do_not_count() -> None:
    after = (0.0, 4.0, 10.0, 1.0, 3.0)
    events = [RunEvent(number=n, at=0.0, after=one, kind="k", data={}) for n, one in enumerate(after)]
    assert worked_seconds(events) == 13.0


def test_one_run_has_its_own_page_and_two_are_side_by_side(tmp_path: Path) -> None:
    for name in "ab":
        made_run(tmp_path / "runs" / name, [("Slower", 125.0), ("Accepted", 25.0)])
    one = write(read(["a"], tmp_path / "runs", tmp_path), tmp_path / "one.html", {"csv"})
    assert 'id="verdict"' in one[0].read_text() and one[1].name == "one.csv"
    both = write(read(["a", "b"], tmp_path / "runs", tmp_path), tmp_path / "both.html")
    assert 'id="s0-tasks"' in both[0].read_text()


def test_a_long_way_is_shown_whole(tmp_path: Path) -> None:
    page = run_page(made_run(tmp_path / "r", [("Accepted", 90.0 - n) for n in range(40)]), tmp_path)
    assert len(re.findall(r'class="branch d\d way"', page)) == 40 and page.count("branch d8") == 32
