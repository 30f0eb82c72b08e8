"""A real browser drives the live dashboard while searches run on the emulated device.

python benchmarks/serve_tour.py [--only run compare bench] [--out FOLDER] [--results results/serve-tour.md]

Needs Playwright (pip install playwright) and a Chromium. Everything is real: `kernelblaster serve`, a search
that is steered, killed and resumed from its page, a second one to compare with, a bench that fills its
table, and the knowledge base that they teach. Each thing that is shown is a line of the table; each view is
photographed in light and dark, at 1280 and at 390 pixels. Five minutes on two quiet cores; nothing is waited
for longer than --patience seconds, and the results are written as they come.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Error, Page, sync_playwright
from publish import keep

from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.steering import read_commands

SIZES = {"laptop": (1280, 860), "phone": (390, 844)}
COMMAND = [sys.executable, "-m", "kernelblaster"]


class Tour:
    """The pages of a dashboard in a browser; `lines` are what was shown, `problems` what a console said."""

    def __init__(self, page: Page, address: str, options: argparse.Namespace) -> None:
        self.page = page
        self.address = address.rstrip("/")
        self.out: Path = options.out
        self.patience_s: float = options.patience
        self._results: Path | None = options.results
        self.lines: list[tuple[str, str]] = []
        self.problems: list[str] = []
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, path: str) -> None:
        self.page.goto(self.address + path)
        self.page.wait_for_selector("#status[data-kind=live]")

    def show(self, what: str, script: str, after: float | None = None) -> float:
        """Wait until an expression is true; note what that shows, and how long it took."""
        begun = time.monotonic() if after is None else after
        self.wait(script)
        took = time.monotonic() - begun
        self.note(what, f"{took:.1f} s")
        return took

    def note(self, what: str, figure: str) -> None:
        """A line of the table."""
        self.lines.append((what, figure))
        print(f"{figure:>8}  {what}", flush=True)
        self.write()

    def write(self) -> None:
        """The table so far, to the file for results if there is one."""
        pictures = sorted(path.name for path in self.out.glob("*-*-*.png"))
        said = f"{len(self.problems)} messages on the console" if self.problems else "nothing on the console"
        about = (
            f"Searches on the emulated device, {os.cpu_count()} cores, Chromium; {len(pictures)} pictures, "
        )
        load = f"{said}; load {os.getloadavg()[2]:.1f} by this and other programs."
        rows = [f"| {what} | {value} |" for what, value in self.lines]
        head = ["# The dashboard, driven by a browser", "", about + load, ""]
        keep([*head, "| what was shown | after |", "|---|---|", *rows], self._results)

    def wait(self, script: str) -> None:
        """Until an expression is true; asked for from outside, since the page's policy allows no `eval`."""
        end = time.monotonic() + self.patience_s
        while time.monotonic() < end:
            with suppress(Error):  # while the page is being loaded anew
                if self.page.evaluate(f"Boolean({script})"):
                    return
            time.sleep(0.02)
        raise TimeoutError(script)

    def photograph(self, name: str, path: str) -> None:
        """A picture of a view in each size and colour."""
        for size, (width, height) in SIZES.items():
            self.page.set_viewport_size({"width": width, "height": height})
            for colour in ("light", "dark"):
                self.page.emulate_media(color_scheme=colour)
                self.open(path)
                for end in ("document.documentElement.scrollHeight", "0"):  # so that all is drawn
                    self.page.evaluate(f"window.scrollTo(0, {end})")
                    self.page.wait_for_timeout(300)
                wide = self.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide at {width}"
                self.page.screenshot(path=self.out / f"{name}-{size}-{colour}.png", full_page=True)
        self.page.set_viewport_size({"width": 1280, "height": 860})
        self.page.emulate_media(color_scheme="light")


def start(words: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
    quiet: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*COMMAND, *words], env=environment, **quiet)


def until(tour: Tour, wanted: Callable[[], Any], what: str) -> Any:
    """The value of a call once it is true."""
    end = time.monotonic() + tour.patience_s
    while not (value := wanted()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)
    return value


def drive(tour: Tour, data: Path, environment: dict[str, str]) -> None:
    """A search that is started, looked at, steered, killed and resumed."""
    runs = data / "runs"
    tour.open("/")
    begun = time.monotonic()
    search = start(
        ["optimize", "core/level1/rms_norm", "--budget", "14", "--device", "emulated"], environment
    )
    tour.show("a search that is started appears in an empty list", "document.querySelector('tr.run')", begun)
    name = tour.page.evaluate("document.querySelector('tr.run').id").removeprefix("run:")
    folder = runs / name
    tour.show(
        "its small plot goes towards the floor", "document.querySelectorAll('svg.way circle').length >= 2"
    )
    tour.open(f"/runs/{name}")
    assert "running" in tour.page.inner_text("#head")
    tour.show("candidates that are being judged are in the tree", "document.querySelector('#tree .tag.busy')")
    tour.show("a step grows out of the first candidate", "document.querySelector('#tree .gain b')")
    tour.note("from the record of a step to the page, at most", f"{delay(tour, folder):.2f} s")
    first = tour.page.locator("#tree li[id^=step] summary").first
    first.focus()
    tour.page.keyboard.press("Enter")
    tour.show("it unfolds by a key to its reasons", "document.querySelector('#tree .more-detail li')")
    tour.show("and to its difference in colours", "document.querySelector('#tree .difference .added i')")
    steer(tour, folder)
    kill_and_resume(tour, folder)
    search.wait()


def delay(tour: Tour, folder: Path) -> float:
    """The longest time from the record of a verdict to its line on the page, over the next three."""
    followed = FollowedRun(folder)
    followed.update()
    known = sum(event.kind == "evaluation" for event in followed.events)
    longest = 0.0
    for number in range(known + 1, known + 4):
        selector = (
            f"[...document.querySelectorAll('#tree .number')].some(one => +one.textContent === {number})"
        )
        tour.wait(selector)
        seen = time.time()
        followed.update()
        judged = [event for event in followed.events if event.kind == "evaluation"]
        longest = max(longest, seen - judged[number - 1].at)
    return longest


def steer(tour: Tour, folder: Path) -> None:
    page = tour.page
    page.fill("#budget", "18")
    page.click("form:has(#budget) button")
    page.fill("#technique", "block_shape")
    page.click("form:has(#technique) button[value=forbid]")
    page.fill("#technique", "unrolling")
    page.click("form:has(#technique) button[value=pin]")
    page.fill("#note", "a note <script>alert(1)</script>")
    page.click("form:has(#note) button")
    tour.show(
        "budget, forbidden and pinned techniques and a note are on the page",
        "document.querySelectorAll('.asked-log li').length === 4",
    )
    taken = "document.querySelectorAll('.asked-log .tag.good').length === 4"
    tour.show("the search takes them before its next step", taken)
    tour.show("and has the new budget", "document.querySelector('#head').innerText.includes('of 18')")
    assert len(read_commands(folder)[0]) == 4
    tour.photograph("run", f"/runs/{folder.name}")
    tour.open(f"/runs/{folder.name}")


def kill_and_resume(tour: Tour, folder: Path) -> None:
    page = tour.page
    page.click("#steering .danger")
    page.click("#confirm button[value=no]")
    page.wait_for_timeout(500)
    assert "running" in page.inner_text("#head"), "nothing happens without a yes"
    page.click("#steering .danger")
    page.click("#confirm-yes")
    tour.show(
        "kill: the process ends", "document.querySelector('#head .badge').textContent === 'interrupted'"
    )
    followed = FollowedRun(folder)
    followed.update()
    judged = sum(event.kind == "evaluation" for event in followed.events)
    page.click("#steering .primary")
    page.click("#confirm-yes")
    tour.show(
        "resume: another process goes on", "document.querySelector('#head .badge').textContent === 'running'"
    )
    more = f"document.querySelectorAll('#tree .number').length > {judged}"
    tour.show("with what was judged kept", more)
    page.click("#steering [data-body*=false]")
    page.click("#confirm-yes")
    tour.show(
        "stop: it ends before its next candidate",
        "document.querySelector('#head .badge').textContent === 'stopped'",
    )
    page.click("#steering .primary")
    page.click("#confirm-yes")
    tour.show(
        "resumed once more, it ends by itself",
        "document.querySelector('#head .badge').textContent === 'finished'",
    )
    followed.update()
    steps = [step for event in followed.events if event.kind == "steps" for step in event.data["steps"]]
    techniques = [step["technique"] for step in steps if not step["id"].startswith("0/0/0")]
    assert sum(event.kind == "evaluation" for event in followed.events) <= 18
    tour.note("techniques that were tried", ", ".join(dict.fromkeys(techniques)))


def compare(tour: Tour, data: Path, environment: dict[str, str]) -> None:
    """Two runs side by side, of which one runs."""
    runs = data / "runs"
    words = "optimize core/level1/rms_norm --device emulated --budget"
    while len(list(runs.iterdir())) < 1:
        start([*words.split(), "3"], environment).wait()
    second = start([*words.split(), "6", "--seed", "3"], environment)
    tour.open("/")
    tour.show("a second run", "document.querySelectorAll('tr.run').length === 2")
    for box in tour.page.query_selector_all("input[name=pick]"):
        box.check()
    tour.page.click("#compare")
    tour.show(
        "two runs side by side while one of them runs",
        "document.querySelectorAll('#compare-chart path.line').length === 2",
    )
    second.wait()
    address = tour.page.evaluate("location.pathname + location.search")
    tour.photograph("compare", address)
    tour.photograph("runs", "/")


def bench_and_knowledge(tour: Tour, data: Path, environment: dict[str, str]) -> None:
    """A bench, and the knowledge base that it teaches."""
    folder = data / "benches" / "small"
    words = "bench core --level 1 --subset 3 --budget 3 --workers 1 --device emulated --folder"
    bench = start([*words.split(), str(folder)], environment)
    until(tour, (folder / "events.jsonl").exists, "the bench")
    tour.page.wait_for_timeout(1500)
    tour.open("/benches/small")
    tour.show(
        "a bench's table, with what is at work",
        "document.querySelector('#bench-rows .tag.busy, #bench-now li')",
    )
    tour.show("workers and devices over time", "document.querySelector('#bench-use path.line')")
    tour.show("the table is full", "document.querySelectorAll('#bench-rows .tag.good').length === 3")
    bench.wait()
    tour.photograph("bench", "/benches/small")
    tour.photograph("benches", "/benches")
    own = (data / "knowledge.db").exists()
    taught = "/knowledge/knowledge.db" if own else "/knowledge/bench~small"
    tour.open(taught)
    tour.show("what was learned today", "document.querySelectorAll('#kb-today tbody tr').length > 3")
    tour.page.select_option("select[name=clock]", "measured")
    tour.show("nothing of it was measured", "!document.querySelector('#states .card')")
    tour.photograph("knowledge", taught)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts: dict[str, Callable[[Tour, Path, dict[str, str]], None]] = {
        "run": drive,
        "compare": compare,
        "bench": bench_and_knowledge,
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--patience", type=float, default=400.0, help="seconds, for one thing")
    parser.add_argument("--out", type=Path, default=Path("build/tour"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        data = Path(scratch) / "data"
        (data / "runs").mkdir(parents=True)
        environment = {**os.environ, "KERNELBLASTER_DATA": str(data)}
        server = start(
            ["serve", "--port", "0", "--json", str(data), "--kb", str(data / "knowledge.db")], environment
        )
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        tour = Tour(browser.new_page(viewport={"width": 1280, "height": 860}), address, options)
        try:
            for name, part in parts.items():
                if name in options.only:
                    part(tour, data, environment)
        except BaseException:
            tour.page.screenshot(path=options.out / "failed.png", full_page=True)
            raise
        finally:
            browser.close()
            server.terminate()
            server.wait(20)
    tour.write()
    assert tour.problems == [], tour.problems


if __name__ == "__main__":
    main()
