"""What the dashboard costs: the first page, the delay of events, the pace of a search, memory over time.

python benchmarks/serve.py [--only first lag pace clients soak] [--seconds 300] [--out results/serve-costs.md]

The dashboard is a process of its own (`kernelblaster serve`), and so are viewers, who read pages and their
events as browsers do. Runs of lists are made (kernelblaster.testing.made_bench); the searches whose pace is
taken are real ones, on the emulated device, with and without viewers in turn. Pace is candidates for each
second of processor time of the search, which other programs on the machine hardly change. On two quiet
cores: first 30 s, lag 3 minutes, pace 2 minutes for each pair, clients 1 minute, soak as long as it is told.
The table is written after each part.
"""

import argparse
import http.client
import json
import os
import platform
import re
import resource
import selectors
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path
from typing import Any
from urllib.parse import quote

from publish import keep

from kernelblaster.store.run import LOG, Run
from kernelblaster.testing.made_bench import made_bench

COMMAND = [sys.executable, "-m", "kernelblaster"]
SEARCH = ["optimize", "core/level1/rms_norm", "--budget", "10", "--device", "emulated", "--json"]
LIVE_PAGE = re.compile(r'data-topic="([^"]*)" data-epoch="(\w*)" data-version="(\d+)"')
EVENTS = 10  # whose delay is taken for each page
Figures = list[tuple[str, str, str]]  # what was asked for, what was limited to what, what came out


@contextmanager
def dashboard(folder: Path, environment: dict[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """(host and port, process) of a dashboard on a folder."""
    words = [*COMMAND, "serve", str(folder), "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        address = json.loads(process.stdout.readline())["address"]
        yield address.removeprefix("http://").rstrip("/"), process.pid
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def fetch(address: str, path: str) -> tuple[float, str]:
    """(seconds, text) of a page."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path, headers={"accept": "text/html"})
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    assert reply.status == 200, f"{path}: {reply.status}"
    return time.perf_counter() - begun, text


def join(address: str, path: str) -> http.client.HTTPConnection:
    """The stream of a page, its head read."""
    found = LIVE_PAGE.search(fetch(address, path)[1])
    assert found is not None, path
    connection = http.client.HTTPConnection(address, timeout=60)
    query = f"topic={quote(found[1], safe='')}&epoch={found[2]}&since={found[3]}"
    connection.request("GET", f"/live?{query}", headers={"accept": "text/event-stream"})
    return connection


class Viewers:
    """Many open pages, read by this process as fast as they come."""

    def __init__(self, address: str, paths: Sequence[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self._open = []
        for path in paths:
            connection = join(address, path)
            assert connection.sock is not None
            connection.sock.setblocking(False)
            self._open.append(connection)
            self._selector.register(connection.sock, selectors.EVENT_READ)
        self._rest: dict[int, bytes] = {}
        self.lost = 0

    def read(self, seconds: float, mark: str = "") -> set[int]:
        """Read for some seconds; returns the descriptors of the pages that got `mark`."""
        until, seen = time.monotonic() + seconds, set()
        while (left := until - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                data = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]
                if not data:
                    self.lost += 1
                    self._selector.unregister(key.fileobj)
                text = self._rest.get(key.fd, b"") + data
                if mark and mark.encode() in text:
                    seen.add(key.fd)
                self._rest[key.fd] = text[-64:]
        return seen

    def arrival(self, mark: str, count: int) -> float | None:
        """Seconds until so many pages got `mark`; None if they did not within 60."""
        begun, seen = time.monotonic(), set()
        while len(seen) < count:
            seen |= self.read(0.005, mark)
            if time.monotonic() - begun > 60:
                return None
        return time.monotonic() - begun

    def close(self) -> None:
        for connection in self._open:
            connection.close()
        self._selector.close()


def made_runs(root: Path, count: int, steps: int) -> None:
    """Runs of made searches, copied from a few."""
    bench = root.parent / "made"
    made_bench(bench, 10, steps).close()
    originals = sorted((bench / "runs").iterdir())
    root.mkdir(parents=True)
    for number in range(count):
        original = originals[number % len(originals)]
        shutil.copytree(original, root / f"run-{number:05}")


def resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def processor_s(process: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_page(scratch: Path) -> Figures:
    """How soon the list of 1,000 runs is there."""
    root = scratch / "many"
    made_runs(root, 1000, 12)
    with dashboard(root) as (address, process):
        used = processor_s(process)
        cold = fetch(address, "/")[0]
        used = processor_s(process) - used
        begun = time.monotonic()
        while (
            time.monotonic() - begun < 120
            and "reading" in re.sub(r"<script.*?</script>", "", fetch(address, "/")[1]).partition("<form")[0]
        ):
            time.sleep(0.2)
        all_read = time.monotonic() - begun
        at = processor_s(process)
        warm = sorted(fetch(address, "/")[0] for _ in range(30))
        each = (processor_s(process) - at) / 30
        every = sorted(fetch(address, "/?all")[0] for _ in range(5))
        run = sorted(fetch(address, "/runs/run-00007")[0] for _ in range(10))
        memory = resident_mb(process)
    ms = [1000 * one for one in (cold, statistics.median(warm), warm[-1], every[2], run[5])]
    return [
        ("list of 1,000 runs, the first request after the start, by the clock", "300 ms", f"{ms[0]:.0f} ms"),
        ("processor time of the dashboard meanwhile, reading logs included", "", f"{1000 * used:.0f} ms"),
        (
            "the same list later, by the clock; median and worst of 30",
            "300 ms",
            f"{ms[1]:.0f} and {ms[2]:.0f} ms",
        ),
        ("processor time of each", "", f"{1000 * each:.0f} ms"),
        ("the same with all 1,000 lines", "", f"{ms[3]:.0f} ms"),
        ("all 1,000 logs read in the background", "", f"{all_read:.1f} s"),
        ("page of a run of 12 steps", "", f"{ms[4]:.0f} ms"),
        ("memory of the dashboard then", "", f"{memory:.0f} MB"),
    ]


def _mark(run: Run, number: int) -> str:
    """Record an event; returns the text of it that is on every page that shows the run: its time."""
    return f"{run.append('stopped', why=f'mark {number}').at}"


def _lag(address: str, folder: Path, path: str, count: int) -> list[float]:
    """Seconds from the record of an event to its arrival at a page, for some events."""
    viewer = Viewers(address, [path])
    viewer.read(0.5)
    lags = []
    with Run(folder, writing=True) as run:
        for number in range(count):
            viewer.read(0.37 + 0.05 * (number % 7))
            lag = viewer.arrival(_mark(run, number), 1)
            assert lag is not None, "an event was lost"
            lags.append(lag)
    viewer.close()
    return sorted(lags)


def event_lag(scratch: Path) -> Figures:
    """How soon an event is on a page that is open."""
    figures: Figures = []
    for runs, steps in ((3, 12), (1000, 12), (3, 500)):
        root = scratch / f"lag-{runs}-{steps}"
        made_runs(root / "runs", runs, steps)
        shutil.rmtree(root / "made", ignore_errors=True)
        with dashboard(root / "runs") as (address, _):
            time.sleep(3 if runs > 3 else 0.5)
            folder = root / "runs" / "run-00001"
            for path, what in ((f"/runs/{folder.name}", "its page"), ("/", "the list")):
                lags = _lag(address, folder, path, EVENTS)
                words = f"{statistics.median(lags):.2f} and {lags[-1]:.2f} s"
                about = f"from record to {what}, {runs:,} runs of {steps:,} steps; median, worst of {EVENTS}"
                figures.append((about, "1 s", words))
    return figures


def _search(data: Path, kb: Path) -> tuple[float, float]:
    """(candidates for each second of processor time, for each second) of a search on the emulated device."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "KERNELBLASTER_DATA": str(data)}
    subprocess.run(
        [*COMMAND, *SEARCH, "--kb", str(kb)],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=1200,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    newest = max((data / "runs").iterdir())
    judged = sum('"kind":"evaluation"' in line.replace(" ", "") for line in (newest / LOG).open())
    return judged / used, judged / (time.monotonic() - begun)


def search_pace(scratch: Path, pairs: int) -> Figures:
    """The pace of searches with 50 pages open, and with no dashboard at all, in turn; every other pair begins
    with the one that is watched, so that what drifts counts for neither."""
    data = scratch / "pace"
    (data / "runs").mkdir(parents=True)
    _search(data, scratch / "warm.db")
    ratios, used, walls = [], [], []
    for pair in range(pairs):
        found: dict[bool, tuple[float, float]] = {}
        for is_watched in (False, True) if pair % 2 == 0 else (True, False):
            kb = scratch / f"{pair}-{is_watched}.db"
            if is_watched:
                found[True], share = _watched_search(data, kb)
                used.append(share)
            else:
                found[False] = _search(data, kb)
        ratios.append(found[True][0] / found[False][0])
        walls.append(found[True][1] / found[False][1])
        print(f"pace with 50 pages over without: {ratios[-1]:.4f}, by the clock {walls[-1]:.3f}", flush=True)
    loss = 100 * (1 - statistics.median(ratios))
    spread = ", ".join(f"{100 * (1 - one):+.1f}" for one in ratios)
    return [
        (f"pace lost with 50 pages open, median of {pairs} pairs ({spread} %)", "2 %", f"{loss:.1f} %"),
        ("the same by the clock, all on the same cores", "", f"{100 * (1 - statistics.median(walls)):.1f} %"),
        ("of a core that the dashboard used meanwhile", "", f"{100 * statistics.median(used):.0f} %"),
    ]


def _watched_search(data: Path, kb: Path) -> tuple[tuple[float, float], float]:
    """The pace of a search with 50 pages open, as `_search` gives it, and the share of a core that the
    dashboard used meanwhile."""
    with dashboard(data, {**os.environ, "KERNELBLASTER_DATA": str(data)}) as (address, process):
        names = [folder.name for folder in sorted((data / "runs").iterdir())]
        viewers = Process(target=view_newest, args=(address, data / "runs", names), daemon=True)
        viewers.start()
        time.sleep(2)
        at, begun = processor_s(process), time.monotonic()
        pace = _search(data, kb)
        share = (processor_s(process) - at) / (time.monotonic() - begun)
        viewers.kill()
        viewers.join()
    return pace, share


def view_newest(address: str, runs: Path, known: list[str]) -> None:
    """Open 25 lists now and 25 pages of the first run that is new, and read them until this is killed."""
    lists = Viewers(address, ["/"] * 25)
    pages: Viewers | None = None
    while True:
        lists.read(0.2)
        new = sorted(folder.name for folder in runs.iterdir() if folder.name not in known)
        if pages is None and new and (runs / new[-1] / LOG).exists():
            time.sleep(1.5)
            pages = Viewers(address, [f"/runs/{new[-1]}"] * 25)
        if pages is not None:
            pages.read(0.2)


def many_clients(scratch: Path) -> Figures:
    """200 pages of one run, 20 of them never read."""
    root = scratch / "clients"
    made_runs(root / "runs", 5, 30)
    folder = root / "runs" / "run-00001"
    with dashboard(root / "runs") as (address, process):
        fetch(address, "/")
        before = resident_mb(process)
        slow = [join(address, f"/runs/{folder.name}") for _ in range(20)]
        viewers = Viewers(address, [f"/runs/{folder.name}"] * 180)
        viewers.read(2.0)
        lags = []
        with Run(folder, writing=True) as run:
            for number in range(10):
                lag = viewers.arrival(_mark(run, number), 180)
                assert lag is not None, "an event was lost"
                lags.append(lag)
                viewers.read(0.5)
        memory = resident_mb(process)
        viewers.close()
        for one in slow:
            one.close()
    worst = max(lags)
    return [
        ("200 pages of a run, 20 of them not read: an event is at all 180, median and worst of 10", "1 s",
         f"{statistics.median(lags):.2f} and {worst:.2f} s"),
        ("memory for 200 pages", "", f"{memory - before:.0f} MB"),
        ("pages that were dropped although they read", "0", str(viewers.lost)),
    ]  # fmt: skip


def soak(scratch: Path, seconds: float, viewers_count: int) -> Figures:
    """Searches that write, one after the other, and viewers that come and go, for some minutes."""
    root = scratch / "soak"
    made_runs(root / "runs", 50, 30)
    lines, samples, lost, marks, errors, slowest = 0, [], 0, 0, 0, 0.0
    with dashboard(root / "runs") as (address, process):
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            folder = root / "runs" / f"run-{number % 50:05}"
            half = viewers_count // 2
            viewers = Viewers(address, [f"/runs/{folder.name}"] * half + ["/"] * (viewers_count - half))
            with Run(folder, writing=True) as run:
                for step in range(40):
                    last = _mark(run, step)
                    lines += 1
                    viewers.read(0.2 if step < 39 else 0.0)
                took = viewers.arrival(last, viewers_count)
            marks += viewers_count
            lost += took is None
            slowest = max(slowest, took or 60.0)
            errors += viewers.lost
            viewers.close()
            number += 1
            samples.append(resident_mb(process))
        files = len(list(Path(f"/proc/{process}/fd").iterdir()))
    half = len(samples) // 2
    growth = statistics.median(samples[half:]) - statistics.median(samples[:half])
    tenths = ", ".join(f"{one:.0f}" for one in samples[:: max(1, len(samples) // 10)])
    return [
        (f"{seconds / 60:.0f} minutes, {viewers_count} pages at a time, {number} rounds, {lines:,} events: "
         "rounds whose last event was not at all pages within a minute", "0", str(lost)),
        (f"the slowest of these {marks:,} arrivals", "", f"{slowest:.2f} s"),
        ("pages that were dropped", "0", str(errors)),
        (f"growth of memory from the first half to the second ({tenths} MB)", "none", f"{growth:+.1f} MB"),
        ("open files of the dashboard at the end", "", str(files)),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = ("first", "lag", "pace", "clients", "soak")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--seconds", type=float, default=300.0, help="of the soak")
    parser.add_argument("--pairs", type=int, default=5, help="of searches with and without viewers")
    parser.add_argument("--viewers", type=int, default=50, help="of the soak, at a time")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    figures: Figures = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        todo: dict[str, Any] = {
            "first": first_page,
            "lag": event_lag,
            "pace": lambda at: search_pace(at, options.pairs),
            "clients": many_clients,
            "soak": lambda at: soak(at, options.seconds, options.viewers),
        }
        for name in parts:
            if name in options.only:
                (folder / name).mkdir()
                new = todo[name](folder / name)
                figures += new
                for what, limit, got in new:
                    print(f"{got:>20}  {f'(at most {limit})' if limit else '':18} {what}", flush=True)
                keep(_table(figures), options.out)


def _table(figures: Figures) -> list[str]:
    """The lines of the table so far."""
    rows = [f"| {what} | {limit or ''} | {got} |" for what, limit, got in figures]
    load = f"load {os.getloadavg()[2]:.1f} by this and other programs"
    machine = f"{os.cpu_count()} cores ({platform.machine()}), no GPU, {load}."
    return [
        "# What the dashboard costs",
        "",
        machine,
        "",
        "| what | at most | figure |",
        "|---|---|---|",
        *rows,
    ]


if __name__ == "__main__":
    main()
