"""A dashboard on made runs: in this process for single requests, and behind a real server for streams."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from kernelblaster.serve.app import make_app
from kernelblaster.serve.dashboard import Dashboard, Served
from kernelblaster.serve.guard import Access, access_to
from kernelblaster.serve.server import listen

BASE = "http://127.0.0.1:8420"
TOKEN = "a-token-that-is-long-enough"


def dashboard_of(
    *folders: Path, knowledge: dict[str, str] | None = None, read_only: bool = False
) -> Dashboard:
    dashboard = Dashboard(Served(list(folders), knowledge or {}, read_only))
    dashboard.catalog.poll(now=True)
    return dashboard


def client_of(dashboard: Dashboard, token: str | None = None, **more: Any) -> TestClient:
    app = make_app(dashboard, access_to("127.0.0.1", (), token))
    return TestClient(app, base_url=BASE, follow_redirects=False, headers={"accept": "text/html"}, **more)


@contextmanager
def served(dashboard: Dashboard, access: Access | None = None) -> Iterator[str]:
    """The address, without a slash at its end, of a server in a thread of this process."""
    opened = listen("127.0.0.1", 0)
    app = make_app(dashboard, access or access_to("127.0.0.1", (), None))
    config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[opened])), daemon=True)
    thread.start()
    dashboard.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
    finally:
        server.should_exit = True
        dashboard.stop()
        thread.join(10)


class Stream:
    """Server-sent events of a topic, read one by one."""

    def __init__(self, address: str, topic: str, since: int | None = None, epoch: str = "") -> None:
        from urllib.parse import quote

        host, _, port = address.removeprefix("http://").partition(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=10)
        query = f"/live?topic={quote(topic, safe='')}&epoch={epoch}&since={'' if since is None else since}"
        self.connection.request("GET", query)
        self.reply = self.connection.getresponse()

    def next(self) -> tuple[str, dict[str, Any]]:
        """(kind, data) of the next event."""
        kind = ""
        while True:
            line = self.reply.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))

    def until(self, wanted: str, inside: str = "") -> dict[str, Any]:
        """The data of the next event of a kind that has a text in it."""
        while True:
            kind, data = self.next()
            if kind == wanted and inside in json.dumps(data):
                return data

    def close(self) -> None:
        self.connection.close()
