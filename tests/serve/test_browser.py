"""The live pages in a real browser, while a run is written: they move, they obey, nothing that a run says is
run, and no page of another site gets anything. Skipped where no Chromium is installed."""

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster.knowledge import KnowledgeBase, Provenance, plant
from kernelblaster.store.steering import read_commands
from kernelblaster.testing.made_bench import made_bench
from tests.report.browser import LAPTOP, PHONE, Browser, installed
from tests.report.made_run import MadeRun, made_run
from tests.report.test_hostile_names import SCRIPT
from tests.serve.site import TOKEN, dashboard_of, served
from tests.serve.test_pages import CONTROLS, HUGE, hostile_run

EVIL = """<!doctype html><title>evil</title><iframe src="SITE/"></iframe><img src="SITE/static/icon.svg">
<script src="SITE/static/tables.js"></script><form id=f method=post action="SITE/runs/r/stop"></form><script>
const got = [];
const attempt = async (what) => { try { got.push(await what()); } catch { got.push("refused"); } };
const asked = (type, mode) => fetch("SITE/runs/r/steer", { method: "POST", mode, body: '{"budget": 1}',
  headers: { "content-type": type } }).then(() => "sent");
(async () => {
  for (const path of ["/", "/runs/r", "/live?topic=runs", "/rows"]) {
    await attempt(() => fetch("SITE" + path, { credentials: "include" }).then((reply) => reply.status));
    await attempt(() => fetch("SITE" + path, { mode: "no-cors" }).then((reply) => reply.text())
      .then((text) => text.length));
  }
  await attempt(() => asked("text/plain", "no-cors"));
  await attempt(() => asked("application/json", "cors"));
  window.got = got;
  document.documentElement.dataset.ready = "yes";
})();
</script>"""
program = installed()
pytestmark = pytest.mark.skipif(program is None, reason="no Chromium is installed")
OUTCOMES = [("Slower", 125.0), ("Accepted", 50.0), ("Accepted", 25.0)]
LIVE = "document.querySelector('#status').dataset.kind === 'live'"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    assert program is not None
    with Browser(program) as opened:
        yield opened


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.look(LAPTOP)
    chromium.errors.clear()
    yield chromium
    errors = [error for error in chromium.errors if "net::ERR" not in error]
    chromium.ask("Page.navigate", url="about:blank")
    assert errors == []


@pytest.fixture
def made(tmp_path: Path) -> Iterator[MadeRun]:
    made = MadeRun(tmp_path / "live", task="core/level1/live")
    made.judge("Slower", 125.0)
    yield made
    made.close()


def rows(browser: Browser) -> list[str]:
    return list(browser.run("[...document.querySelectorAll('#tree > li')].map(row => row.id)"))


def seen(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({selector!r})?.innerText ?? ''"))


def test_a_tree_grows_while_it_is_looked_at(browser: Browser, made: MadeRun, tmp_path: Path) -> None:
    with served(dashboard_of(tmp_path)) as address:
        browser.open(f"{address}/runs/live")
        browser.wait(LIVE)
        assert rows(browser) == ["candidate-1"] and "running" in seen(browser, "#head")
        made.judge("Accepted", 60.0)
        browser.wait("document.getElementById('step-0-0-0-0') !== null")
        browser.click("#step-0-0-0-0 summary")
        browser.wait("document.querySelectorAll('#step-0-0-0-0 .difference .added').length > 0")
        assert "Why it was tried" in seen(browser, "#step-0-0-0-0")
        made.judge("CompileFailed", reason="expected a ;", log="error: 7")
        browser.wait("document.getElementById('step-0-0-1-0') !== null")
        assert rows(browser) == ["candidate-1", "step-0-0-0-0", "step-0-0-1-0"]
        assert browser.run("document.querySelector('#step-0-0-0-0 details').open"), "what is open stays open"
        assert browser.run("document.querySelectorAll('#step-0-0-0-0 .difference .added').length") > 0
        assert "3 of 9" in seen(browser, "#head") and "1.67x" in seen(browser, "#verdict")
        assert browser.run("document.querySelectorAll('#progress circle').length") == 2
        made.end(made.codes[1])
        made.run.close()
        browser.wait("document.querySelector('#head .badge').textContent === 'finished'")
        browser.wait("document.querySelector('#steering').innerText.includes('Resume')")
        assert "What was learned" in seen(browser, "#learned")


def test_the_list_moves_filters_and_leads_to_a_comparison(
    browser: Browser, made: MadeRun, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        made_run(tmp_path / name, OUTCOMES, task=f"core/level1/{name}")
    with served(dashboard_of(tmp_path)) as address:
        browser.open(address + "/")
        browser.wait(LIVE)
        first = "document.querySelector('#list-lines tr').id"
        assert browser.run(first) == "run:live", "those at work come first"
        made.judge("Accepted", 31.25)
        browser.wait("document.getElementById('run:live').innerText.includes('3.20x')")
        made_run(tmp_path / "new", OUTCOMES, task="core/level1/new")
        browser.wait("document.getElementById('run:new') !== null")
        assert browser.run("document.querySelectorAll('#list-lines tr').length") == 4
        browser.click("#filter input[type=search]")
        browser.type("level1/b")
        browser.wait("document.querySelectorAll('#list-lines tr').length === 1")
        browser.run("(() => { const q = document.querySelector('#filter [name=q]'); q.value = '';"
                    "q.dispatchEvent(new Event('input', {bubbles: true})); })()")  # fmt: skip
        browser.wait("document.querySelectorAll('#list-lines tr').length === 4")
        browser.click("#filter .chips button:nth-child(1)")
        browser.wait("document.querySelectorAll('#list-lines tr').length === 1")
        browser.click("#filter .chips button:nth-child(1)")
        browser.wait("document.querySelectorAll('#list-lines tr').length === 4")
        for name in ("a", "b"):
            browser.click(f"[id='run:{name}'] input[name=pick]")
        browser.click("#compare")
        browser.wait("location.pathname === '/compare' && document.documentElement?.dataset.ready === 'yes'")
        browser.wait(LIVE)
        assert "A b" in seen(browser, "#compare-head").replace("\n", " ")
        assert browser.run("document.querySelector('#compare-chart svg') !== null")


def test_a_search_that_begins_comes_first_in_an_open_list(browser: Browser, tmp_path: Path) -> None:
    made_run(tmp_path / "old", OUTCOMES)
    with served(dashboard_of(tmp_path)) as address:
        browser.open(address + "/")
        browser.wait(LIVE)
        new = MadeRun(tmp_path / "new")
        new.judge("Accepted", 50.0)
        browser.wait("document.querySelector('#list-lines tr').id === 'run:new'")
        new.close()


def test_a_search_is_steered_stopped_and_nothing_happens_without_a_yes(
    browser: Browser, made: MadeRun, tmp_path: Path
) -> None:
    folder = tmp_path / "live"
    with served(dashboard_of(tmp_path)) as address:
        browser.open(f"{address}/runs/live")
        browser.wait(LIVE)
        browser.click("#budget")
        browser.type("40")
        browser.click("form:has(#budget) button")
        browser.wait("document.querySelector('#steering').innerText.includes('budget of 40 candidates')")
        browser.click("#technique")
        browser.type("unrolling")
        browser.click("form:has(#technique) button[value=forbid]")
        browser.wait("document.querySelector('.pins')?.innerText.includes('forbidden: unrolling')")
        browser.click(".pins .cross")
        browser.wait("document.querySelector('.pins') === null")
        browser.click("#note")
        browser.type(SCRIPT)
        browser.click("form:has(#note) button")
        browser.wait("document.querySelector('.asked-log').innerText.includes('planted()')")
        kinds = [one.action.kind for one in read_commands(folder)[0]]
        assert kinds == ["budget", "forbid", "release", "note"] and "waiting" in seen(browser, ".asked-log")
        browser.click("#steering [data-action$='/stop']")
        browser.wait("document.querySelector('#confirm').open")
        browser.click("#confirm button[value=no]")
        browser.wait("!document.querySelector('#confirm').open")
        time.sleep(0.3)
        assert len(read_commands(folder)[0]) == 4, "nothing was done"
        browser.click("#steering [data-action$='/stop']")
        browser.wait("document.querySelector('#confirm').open")
        browser.click("#confirm-yes")
        browser.wait("document.querySelector('#toast').innerText.includes('will stop')")
        assert [one.action.kind for one in read_commands(folder)[0]][-1] == "stop"
        assert browser.run("window.planted === undefined")


def test_every_page_fits_a_phone_and_a_laptop_light_and_dark(
    browser: Browser, made: MadeRun, tmp_path: Path
) -> None:
    made_run(tmp_path / "a", OUTCOMES)
    made_bench(tmp_path / "bench", tasks=5, steps=3).close()
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        plant(knowledge)
        knowledge.observe(
            "latency", "vectorized_memory_access", 0.4, Provenance(architecture="sm_90a", gpu="h200")
        )
    dashboard = dashboard_of(tmp_path, knowledge={"kb.db": str(tmp_path / "kb.db")})
    colour = "getComputedStyle(document.body).backgroundColor"
    with served(dashboard) as address:
        for path in (
            "/",
            "/runs/live",
            "/compare?a=a&b=live",
            "/benches",
            "/benches/bench",
            "/knowledge/kb.db",
        ):
            for size in (LAPTOP, PHONE):
                browser.look(size)
                browser.open(address + path)
                browser.wait(LIVE)
                assert browser.run("document.documentElement.scrollWidth") <= size[0], (path, size)
        browser.look(LAPTOP)
        light = browser.run(colour)
        browser.look(LAPTOP, dark=True)
        dark = browser.run(colour)
        assert light != dark
        browser.click("#theme")
        assert browser.run(colour) == light, "the switch goes before the preference"
        browser.open(address + "/")
        assert browser.run(colour) == light, "and is remembered"
        browser.click("#theme")
        browser.click("#theme")
        assert browser.run(colour) == dark and browser.run("localStorage.getItem('theme')") is None


def test_everything_can_be_done_by_keys(browser: Browser, made: MadeRun, tmp_path: Path) -> None:
    made_run(tmp_path / "a", OUTCOMES)
    made_run(tmp_path / "b", OUTCOMES)
    focused = (
        "document.activeElement.id || document.activeElement.closest('li')?.id || document.activeElement.name"
    )
    with served(dashboard_of(tmp_path)) as address:
        browser.open(address + "/")
        browser.wait(LIVE)
        for key, expected in (("j", "run:live"), ("j", "run:b"), ("j", "run:a"), ("k", "run:b")):
            browser.press(key)
            assert browser.run(focused) == expected
        browser.press("x")
        browser.press("j")
        browser.press("x")
        assert browser.run("document.querySelector('#compare').disabled") is False
        browser.press("/")
        assert browser.run(focused) == "q"
        browser.run("document.activeElement.blur()")
        browser.press("?")
        assert browser.run("document.querySelector('#keys').open")
        browser.press("Escape")
        browser.run("document.querySelector('#keys').close()")
        browser.press("k")
        browser.run("document.getElementById('run:b').focus()")
        browser.press("Enter")
        browser.wait("location.pathname === '/runs/b' && document.documentElement?.dataset.ready === 'yes'")
        browser.press("j")
        browser.press("j")
        assert browser.run(focused) == "step-0-0-0-0"
        browser.press("Enter")
        browser.wait("document.querySelector('#step-0-0-0-0 .more-detail') !== null")
        browser.press("u")
        browser.wait("location.pathname === '/'")


@pytest.mark.parametrize("text", [SCRIPT, CONTROLS, HUGE], ids=["script", "controls", "huge"])
def test_nothing_that_a_run_says_is_run(browser: Browser, tmp_path: Path, text: str) -> None:
    hostile_run(tmp_path / "r", text)
    with served(dashboard_of(tmp_path)) as address:
        browser.open(address + "/")
        browser.wait(LIVE)
        browser.open(f"{address}/runs/r")
        browser.wait(LIVE)
        browser.wait(
            "[...document.querySelectorAll('details')].every(one =>"
            " { one.open = true; return !one.dataset.load || one.dataset.done; })"
        )
        browser.run("document.querySelectorAll('pre').forEach(one => one.scrollIntoView())")
        time.sleep(0.3)
        assert browser.run("window.planted === undefined && document.querySelector('img[src=x]') === null")
        assert browser.run("document.documentElement.scrollWidth") <= LAPTOP[0]


def test_a_page_of_another_site_gets_nothing_and_can_do_nothing(browser: Browser, tmp_path: Path) -> None:
    folder = made_run(tmp_path / "runs" / "r", OUTCOMES, ended=False)
    (tmp_path / "site").mkdir()
    with served(dashboard_of(tmp_path / "runs")) as address:
        (tmp_path / "site" / "evil.html").write_text(EVIL.replace("SITE", address))
        handler = lambda *args: Quiet(*args, directory=str(tmp_path / "site"))  # noqa: E731
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            browser.open(f"http://localhost:{other.server_address[1]}/evil.html")
            got = browser.run("window.got")
            framed = browser.run("document.querySelector('iframe').contentDocument")
            browser.run("document.querySelector('#f').submit()")
            time.sleep(0.5)
            browser.errors.clear()
            other.shutdown()
        assert all(one in ("refused", 0, "sent") for one in got), got
        assert framed is None and read_commands(folder) == ([], [])


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_token_is_asked_for_once(browser: Browser, tmp_path: Path) -> None:
    from kernelblaster.serve.guard import access_to

    made_run(tmp_path / "r", OUTCOMES)
    with served(dashboard_of(tmp_path), access_to("127.0.0.1", (), TOKEN)) as address:
        browser.open(address + "/")
        browser.wait("location.pathname === '/login'")
        browser.click("#token")
        browser.type("wrong")
        browser.press("Enter")
        browser.wait("document.body?.innerText.includes('not the token')")
        browser.errors.clear()  # the browser notes the 401
        browser.click("#token")
        browser.type(TOKEN)
        browser.press("Enter")
        browser.wait("location.pathname === '/' && document.querySelector('#status') !== null")
        browser.wait(LIVE)
        assert browser.run("document.cookie") == "" and TOKEN not in browser.run(
            "document.documentElement.innerHTML"
        )
        browser.open(f"{address}/runs/r")
        browser.wait(LIVE)


def test_a_page_that_lost_its_server_says_so_and_goes_on_when_it_is_back(
    browser: Browser, made: MadeRun, tmp_path: Path
) -> None:
    with served(dashboard_of(tmp_path)) as address:
        browser.open(f"{address}/runs/live")
        browser.wait(LIVE)
    browser.wait("document.querySelector('#status').dataset.kind === 'lost'")
    assert "not connected" in seen(browser, "#status")
    browser.errors.clear()
