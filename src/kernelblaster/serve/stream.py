"""`EventStream`: the response that keeps an open page up to date (server-sent events). It lasts as long as
the page is open, and is ended if the browser does not read it."""

import asyncio
import contextlib

from starlette.types import Receive, Scope, Send

from kernelblaster.serve.topics import Client, Topic, async_wake

ALIVE_S = 15.0  # seconds of silence after which a line says that the connection is alive
SLOW_S = 20.0  # seconds that a client has to take what it was sent
PAUSE_S = 0.1  # between two messages to one client: what changes meanwhile goes into one


class EventStream:
    """A response (ASGI) that sends a page the changes of its `topic` as long as the page is open, beginning
    with those after the version `since`. `since` is None if the page was loaded before the server was
    restarted; the page is then told to load again. `headers` are added to the response's. A client that does
    not take a message within 20 s (SLOW_S) is dropped; it may connect again, and continues where it was."""

    def __init__(self, topic: Topic, since: int | None, headers: dict[str, str]) -> None:
        self._topic = topic
        self._since = since
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        changed = asyncio.Event()
        client = Client(async_wake(asyncio.get_running_loop(), changed))
        sent = {"content-type": "text/event-stream", "cache-control": "no-store"} | self._headers
        raw = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})
        gone = asyncio.ensure_future(_disconnected(receive))
        self._topic.join(client, self._since)
        try:
            while not gone.done():
                text = client.take() or b": alive\n\n"
                message = {"type": "http.response.body", "body": text, "more_body": True}
                await asyncio.wait_for(send(message), SLOW_S)
                await asyncio.sleep(PAUSE_S)
                waiting = asyncio.ensure_future(changed.wait())
                await asyncio.wait({gone, waiting}, timeout=ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                changed.clear()
        except asyncio.CancelledError:  # the server ends: so does this response, without a word in the log
            with contextlib.suppress(Exception):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            return  # too slow, or gone: uvicorn closes the connection of a response that did not end
        finally:
            self._topic.leave(client)
            gone.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gone


async def _disconnected(receive: Receive) -> None:
    """Returns when the client has closed its connection; ignores whatever else it sends."""
    while (await receive())["type"] != "http.disconnect":
        pass
