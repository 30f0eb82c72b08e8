"""Behind a real server: steps are seen within a second, slow clients are dropped, and two hundred are
served."""

import http.client
import json
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest

from kernelblaster.serve import stream
from tests.report.made_run import MadeRun, made_run
from tests.serve.site import Stream, dashboard_of, served

SECOND = 1.0


def page_of(address: str, path: str) -> tuple[str, str, int]:
    """(topic, epoch, version) of a page."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=10)
    connection.request("GET", path, headers={"accept": "text/html"})
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(r'data-topic="([^"]*)" data-epoch="(\w*)" data-version="(\d+)"', text)
    assert found is not None
    return found[1], found[2], int(found[3])


def joined(address: str, path: str) -> Stream:
    topic, epoch, version = page_of(address, path)
    return Stream(address, topic, version, epoch)


def test_a_step_is_seen_within_a_second_of_its_record(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.judge("Slower", 125.0)
    with served(dashboard_of(tmp_path)) as address:
        run, runs = joined(address, "/runs/r"), joined(address, "/")
        time.sleep(0.3)
        for number, us in enumerate((80.0, 60.0, 40.0)):
            recorded = time.monotonic()
            made.judge("Accepted", us)
            step = run.until("part", f"step-0-0-{number}-0")
            assert time.monotonic() - recorded < SECOND and f"{us:.1f} us" in step["html"]
            line = runs.until("part", f"{us:g} us")
            assert time.monotonic() - recorded < SECOND and line["id"] == "run:r"
        made.end(made.codes[-1])
        made.close()
        assert "finished" in run.until("part", "badge finished")["html"]
        run.close()
        runs.close()


def test_a_run_that_is_cut_off_or_deleted_while_it_is_looked_at(tmp_path: Path) -> None:
    made_run(tmp_path / "r", [("Slower", 125.0), ("Accepted", 50.0), ("Accepted", 25.0)])
    log = tmp_path / "r" / "events.jsonl"
    with served(dashboard_of(tmp_path)) as address:
        run, runs = joined(address, "/runs/r"), joined(address, "/")
        lines = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(lines[:-6]) + lines[-6][:20])
        assert "interrupted" in run.until("part", "badge interrupted")["html"]
        shutil.rmtree(tmp_path / "r")
        assert "is gone" in run.until("part", "is gone")["html"]
        assert runs.until("gone")["id"] == "run:r"
        run.close()
        runs.close()


def test_a_new_run_appears_in_the_list(tmp_path: Path) -> None:
    made_run(tmp_path / "old", [("Accepted", 50.0)])
    with served(dashboard_of(tmp_path)) as address:
        runs = joined(address, "/")
        made_run(tmp_path / "new", [("Accepted", 25.0)])
        line = runs.until("part", "run:new")
        assert line["within"] == "list-lines" and line["after"] is None
        runs.close()


def test_a_reader_that_comes_back_misses_nothing(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.judge("Slower", 125.0)
    with served(dashboard_of(tmp_path)) as address:
        topic, epoch, version = page_of(address, "/runs/r")
        for us in (80.0, 60.0):
            made.judge("Accepted", us)
        back = Stream(address, topic, version, epoch)
        assert "80.0 us" in back.until("part", "step-0-0-0-0")["html"]
        assert back.until("at")["version"] > version
        back.close()
        other = Stream(address, topic, version, "another")
        assert other.next()[0] == "reload"
        other.close()
        made.close()


def test_a_client_that_does_not_read_is_dropped_and_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SLOW_S", 0.5)
    made = MadeRun(tmp_path / "r")
    made.judge("Slower", 125.0)
    dashboard = dashboard_of(tmp_path)
    with served(dashboard) as address:
        topic, epoch, _ = page_of(address, "/runs/r")
        host, _, port = address.removeprefix("http://").partition(":")
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        slow.connect((host, int(port)))
        slow.sendall(
            f"GET /live?topic={topic}&epoch={epoch}&since=0 HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode()
        )
        quick = joined(address, "/runs/r")
        until = time.monotonic() + 20
        while dashboard.hub.clients < 2:
            time.sleep(0.01)
        number = 0
        while dashboard.hub.clients > 1 and time.monotonic() < until:
            made.judge("Accepted", 100.0 - number / 10, source=f"// {number}\n" * 20_000)
            quick.until("part", f"step-0-0-{number}-0")
            number += 1
        assert dashboard.hub.clients == 1, "it was dropped"
        quick.close()
        slow.close()
        made.close()


def test_two_hundred_pages_are_kept_up_to_date(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    made.judge("Slower", 125.0)
    dashboard = dashboard_of(tmp_path)
    with served(dashboard) as address:
        topic, epoch, version = page_of(address, "/runs/r")
        pages = [Stream(address, topic, version, epoch) for _ in range(200)]
        while dashboard.hub.clients < 200:
            time.sleep(0.01)
        made.judge("Accepted", 60.0)
        late: list[float] = []
        begun = time.monotonic()

        def look(page: Stream) -> None:
            page.until("part", "step-0-0-0-0")
            late.append(time.monotonic() - begun)

        threads = [threading.Thread(target=look, args=(page,)) for page in pages]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(late) == 200
        for page in pages:
            page.close()
        until = time.monotonic() + 10
        while dashboard.hub.clients and time.monotonic() < until:
            made.judge("Accepted", 50.0, source=f"// {time.monotonic()}")
            time.sleep(0.3)
        assert dashboard.hub.clients == 0, "nobody is kept who has gone"
        made.close()


def test_more_pages_than_it_serves_are_told_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelblaster.serve.app.MOST_CLIENTS", 2)
    made_run(tmp_path / "r", [("Accepted", 50.0)])
    with served(dashboard_of(tmp_path)) as address:
        pages = [joined(address, "/") for _ in range(3)]
        assert [page.reply.status for page in pages] == [200, 200, 503]
        for page in pages:
            page.close()


def test_a_topic_that_is_gone_is_not_found(tmp_path: Path) -> None:
    with served(dashboard_of(tmp_path)) as address:
        page = Stream(address, "run/none", 1, "x")
        assert page.reply.status == 404 and json.loads(page.reply.read())["error"]
        page.close()
