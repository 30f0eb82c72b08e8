"""The keeper does what was agreed on before it was sealed, and nothing else."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kernelblaster import keeper
from kernelblaster.devices import gpu_lock
from kernelblaster.errors import KernelBlasterError
from kernelblaster.keeping.keeper_process import keep
from kernelblaster.variables import KEEPER


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A keeper in a thread, with nothing hidden."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    monkeypatch.setenv(KEEPER, "-1")
    monkeypatch.setattr(keeper, "_way", keeper._Way(door=mine))
    thread = threading.Thread(target=keep, args=(theirs, -1), daemon=True)
    thread.start()
    yield
    mine.close()
    thread.join(10)
    assert not thread.is_alive()  # it ends when nobody is left who could ask
    theirs.close()


def refused(message: dict[str, Any]) -> str:
    return str(keeper.ask(message, 10)["failure"]["message"])


def test_a_file_is_written_if_it_was_named_before(kept: None, tmp_path: Path) -> None:
    keeper.claim("file", str(tmp_path / "named"))
    keeper.seal()
    keeper.claim("file", str(tmp_path / "later"))
    keeper.write(tmp_path / "named", "text", 0o666)
    assert (tmp_path / "named").read_text() == "text"
    for name in ("later", "other", "named/../other"):
        with pytest.raises(KernelBlasterError, match="was not named"):
            keeper.write(tmp_path / name, "text", 0o666)
    assert [path.name for path in tmp_path.iterdir()] == ["named"]


def test_what_cannot_be_written_is_said(kept: None, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    keeper.claim("file", str(tmp_path / "folder"))
    with pytest.raises(KernelBlasterError, match="cannot write"):
        keeper.write(tmp_path / "folder", "text", 0o666)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": 7},
        {"do": "exec"},
        {"do": "build", "what": "../x"},
        {"do": "build", "what": "launcher", "architecture": "sm_90 -o /tmp/x"},
        {"do": "hold", "gpu": "../x"},
        {"do": "knowledge", "at": "/x.db", "call": "open"},
        {"do": "write", "file": ["x"]},
        {"do": "answer", "exchange": 1},
    ],
)
def test_anything_else_is_refused(kept: None, message: dict[str, Any]) -> None:
    assert refused(message)


def test_a_message_that_is_none_ends_its_connection_alone(kept: None) -> None:
    with keeper.connected(10) as connection:
        connection.sendall(b"\xff" * 8)
        with suppress(ConnectionResetError):  # as good an end as any
            assert connection.recv(1) == b""
    socket.send_fds(keeper._way.door, [b"."], [])  # type: ignore[arg-type]
    assert refused({"do": "nothing"})


def test_a_gpu_is_held_until_the_connection_is_closed(
    kept: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_lock.tempfile, "gettempdir", lambda: str(tmp_path))
    first = keeper.connected(10)
    keeper.checked_reply(keeper.exchange(first, {"do": "hold", "gpu": "GPU-1"}))
    told: list[str] = []
    second = keeper.connected(10)
    waiting = threading.Thread(
        target=keeper.exchange, args=(second, {"do": "hold", "gpu": "GPU-1"}, told.append)
    )
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive() and told == [f"waiting for the GPU: process {os.getpid()} owns it"]
    first.close()
    waiting.join(10)
    assert not waiting.is_alive()
    second.close()


def test_without_a_keeper_nothing_is_claimed_or_sealed() -> None:
    keeper.claim("file", "/x")
    keeper.seal()
    assert not keeper.keeps("/x") and not keeper.is_running()
