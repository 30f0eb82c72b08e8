"""Topics: what changed is sent once to each who looks, in bounded memory, however slow they are."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelblaster.serve.topics import Client, Hub, PagePart, Topic
from kernelblaster.serve.views.run import RunView
from tests.report.made_run import MadeRun


class Made:
    """A view of lines that a test changes."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.made = 0
        self.changed = True
        self.closed = False

    def refresh(self) -> bool:
        changed, self.changed = self.changed, False
        return changed

    def parts(self) -> Sequence[PagePart]:
        self.made += 1
        return [
            PagePart("head", f"{len(self.lines)}"),
            *(PagePart(one[0], one, "list") for one in self.lines),
        ]

    def show(self, *lines: str) -> None:
        self.lines, self.changed = list(lines), True

    def close(self) -> None:
        self.closed = True


def events(text: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in text.decode().split("\n\n"):
        if block:
            kind, data = (line.partition(": ")[2] for line in block.split("\n"))
            found.append((kind, json.loads(data)))
    return found


def sent(client: Client) -> list[str]:
    return [data.get("html") or f"gone {data['id']}" for kind, data in events(client.take()) if kind != "at"]


def client() -> Client:
    return Client(lambda: None)


def test_only_what_changed_is_sent_and_it_is_made_once() -> None:
    view = Made("a1", "b1")
    topic = Topic("t", view)
    version, parts = topic.page()
    assert [part.html for part in parts] == ["2", "a1", "b1"] and view.made == 1
    lookers = [client() for _ in range(50)]
    for one in lookers:
        topic.join(one, version)
    assert all(sent(one) == [] for one in lookers)
    view.show("a1", "b2", "c1")
    topic.refresh()
    assert view.made == 2 and all(sent(one) == ["3", "b2", "c1"] for one in lookers)
    topic.refresh()
    assert view.made == 2 and sent(lookers[0]) == []
    view.show("a1", "c1")
    topic.refresh()
    assert sent(lookers[0]) == ["2", "c1", "gone b"], "c now follows a"


def test_who_comes_back_gets_what_was_missed_and_who_is_of_another_epoch_loads_anew() -> None:
    view = Made("a1", "b1")
    topic = Topic("t", view)
    version, _ = topic.page()
    view.show("a2", "b1")
    topic.refresh()
    view.show("a3")
    topic.refresh()
    late, lost, ahead = client(), client(), client()
    topic.join(late, version)
    topic.join(lost, None)
    topic.join(ahead, 99)
    assert sent(late) == ["1", "a3", "gone b"]
    assert [kind for kind, _ in events(lost.take())] == ["reload", "at"]
    assert [kind for kind, _ in events(ahead.take())] == ["reload", "at"]


def test_a_batch_ends_with_its_version_so_that_nothing_is_lost_in_between() -> None:
    view = Made("a1")
    topic = Topic("t", view)
    one = client()
    topic.join(one, topic.page()[0])
    view.show("a2", "b1")
    topic.refresh()
    kinds = [kind for kind, _ in events(one.take())]
    assert kinds == ["part", "part", "part", "at"] and topic.version == 2


def test_somebody_who_reads_nothing_costs_as_much_as_one_page() -> None:
    view = Made("a0")
    topic = Topic("t", view)
    slow = client()
    topic.join(slow, topic.page()[0])
    for number in range(2000):
        view.show(f"a{number}", f"b{number}")
        topic.refresh()
    waiting = slow.take()
    assert len(events(waiting)) == 4 and b"a1999" in waiting and b"a1998" not in waiting


def test_lines_know_which_one_they_follow() -> None:
    view = Made("a1")
    topic = Topic("t", view)
    one = client()
    topic.join(one, topic.page()[0])
    view.show("z1", "a1", "b1")
    topic.refresh()
    after = {data["id"]: data.get("after", "none") for kind, data in events(one.take()) if kind == "part"}
    assert after == {"head": "none", "z": None, "a": "z", "b": "a"}


def test_topics_that_nobody_looks_at_are_let_go(monkeypatch: Any) -> None:
    views: dict[str, Made] = {}

    def make(name: str) -> Made | None:
        return None if name == "none" else views.setdefault(name, Made(name))

    hub = Hub(make)
    assert hub.topic("none") is None
    looked = hub.topic("looked")
    assert looked is not None and hub.topic("looked") is looked
    one = client()
    looked.join(one, 0)
    for number in range(200):
        hub.topic(f"t{number}")
    assert [topic.name for topic in hub.watched()] == ["looked"] and hub.clients == 1
    assert len(hub._topics) <= 64 and any(view.closed for view in views.values())
    monkeypatch.setattr("kernelblaster.serve.topics.KEPT_S", -1)
    looked.leave(one)
    assert hub.watched() == [] and not hub._topics and views["looked"].closed


def test_many_threads_lose_nothing() -> None:
    view = Made("a0")
    topic = Topic("t", view)
    one = client()
    topic.join(one, topic.page()[0])
    seen: list[str] = []
    stop = threading.Event()

    def reading() -> None:
        while not stop.is_set():
            seen.extend(sent(one))

    reader = threading.Thread(target=reading)
    reader.start()
    for number in range(1, 500):
        view.show(f"a{number}")
        topic.refresh()
    stop.set()
    reader.join()
    seen += sent(one)
    assert [line for line in seen if line.startswith("a")][-1] == "a499"


def test_a_step_of_a_long_run_sends_that_step_and_not_the_whole_page(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "r")
    for number in range(300):
        made.judge("Accepted", 60.0 + number / 10)
    view = RunView(tmp_path / "r", "/runs/r")
    topic = Topic("run/r", view)
    topic.page()
    client = Client(lambda: None)
    topic.join(client, topic.version)
    client.take()
    sent = []
    for number in range(299, 302):
        made.judge("Slower", 130.0)
        topic.refresh()
        sent.append(client.take())
        assert f"step-0-0-{number}-0".encode() in sent[-1]
    assert len(sent[0]) < 4000 and len(sent[1]) < 4000, "a figure of 300 candidates is not sent each time"
    assert b"progress" in sent[2], "but after each hundredth part more"
    made.judge("Accepted", 30.0)
    topic.refresh()
    assert b"progress" in client.take(), "and at once when the best changes"
    made.close()
