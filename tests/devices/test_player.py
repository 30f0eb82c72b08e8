"""The judge's end of a player, with Python programs in its place; and the launcher where there is no GPU."""

import sys
from pathlib import Path

import pytest

from kernelblaster.devices import player_process
from kernelblaster.devices.device import CandidateDied, CandidateHung
from kernelblaster.devices.native_build import launcher_executable
from kernelblaster.devices.player_process import PlayerPool, PlayerProcess, start_player
from kernelblaster.errors import DeviceLost


@pytest.fixture(scope="module")
def executable(compiler: str) -> Path:
    return launcher_executable("sm_90a")


def test_without_a_driver_the_launcher_says_so(executable: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a driver here")
    player = start_player(executable, ["1048576"], {})
    with pytest.raises(DeviceLost, match=r"could not begin|did not start"):
        player.wait_ready()
    player.kill()


def test_a_second_build_is_taken_from_the_cache(executable: Path) -> None:
    stamp = executable.stat().st_mtime_ns
    assert launcher_executable("sm_90a").stat().st_mtime_ns == stamp


PROGRAM = """#!{python}
import os, socket, sys, time
channel = socket.socket(fileno=0)
def line():
    text = b""
    while not text.endswith(b"\\n"):
        text += channel.recv(1)
    return text
def say(text):
    channel.sendall(text.encode() + b"\\n")
{body}
"""


def script(tmp_path: Path, body: str, *, computes: bool = False) -> PlayerProcess:
    """A Python program that speaks, or fails to speak, the protocol. It is put in place whole: one that was
    started before may be about to read it."""
    program, new = tmp_path / "player.py", tmp_path / "new.py"
    new.write_text(PROGRAM.format(python=sys.executable, body=body))
    new.chmod(0o755)
    new.replace(program)
    return start_player(program, [], {}, computes=computes)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("line(); os._exit(7)", "exit with code 7"),
        ("line(); os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("line(); say('Accepted 100x'); time.sleep(9)", "cannot be read"),
        ("line(); say('[1]'); time.sleep(9)", "cannot be read"),
    ],
)
def test_a_process_that_breaks_the_protocol_died(tmp_path: Path, body: str, message: str) -> None:
    player = script(tmp_path, body)
    with pytest.raises(CandidateDied, match=message):
        player.command("call 1", 2.0)
    assert player.reap(2.0)


def test_a_process_that_does_not_answer_hangs(tmp_path: Path) -> None:
    player = script(tmp_path, "time.sleep(60)")
    with pytest.raises(CandidateHung):
        player.command("time 1", 0.2)
    assert player.reap(2.0)


def test_one_that_computes_is_not_ended_by_what_else_the_machine_does(tmp_path: Path) -> None:
    """It uses half a second of processor time in more than a second, as where two others share its core."""
    body = """line()
end = time.monotonic() + 30
while time.process_time() < 0.5 and time.monotonic() < end:
    went = time.process_time()
    while time.process_time() < went + 0.01: pass
    time.sleep(0.02)
say('{"done": 1}')
time.sleep(9)"""
    player = script(tmp_path, body, computes=True)
    assert player.command("call 1", 0.8) == {"done": 1}
    player.kill()
    player = script(tmp_path, body.replace("0.5", "9"), computes=True)
    with pytest.raises(CandidateHung):
        player.command("call 1", 0.3)
    assert player.reap(2.0)


def test_one_that_computes_nothing_hangs_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(player_process, "BUSY", 3)
    player = script(tmp_path, "time.sleep(60)", computes=True)
    with pytest.raises(CandidateHung):
        player.command("time 1", 0.2)
    assert player.reap(2.0)


def test_descriptors_travel_ahead_of_their_command(tmp_path: Path) -> None:
    body = "data, fds, _, _ = socket.recv_fds(channel, 100, 10)\nline()\nsay('{\"got\": %d}' % len(fds))"
    player = script(tmp_path, body)
    with (tmp_path / "player.py").open() as file:
        player.share([file.fileno(), file.fileno()])
        assert player.command("slots 2", 2.0) == {"got": 2}
    player.kill()


def test_a_pool_keeps_players_started(tmp_path: Path) -> None:
    body = "say('{\"ready\": true}')\ntime.sleep(60)"
    pool = PlayerPool(lambda: script(tmp_path, body), spares=1)
    first, second = pool.take(), pool.take()
    assert first.pid != second.pid
    pool.retire(first)
    pool.retire(second)
    pool.settle()
    pool.close()


def test_the_sanitizer_report_is_read() -> None:
    from kernelblaster.devices.sanitizer import parse

    report = (
        "========= COMPUTE-SANITIZER\n"
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at scale(float *)+0x40 in candidate.cu:12\n"
        "=========     by thread (5,0,0) in block (0,0,0)\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    (finding,) = parse("memcheck", report)
    assert finding.startswith("memcheck: Invalid __global__ write") and "candidate.cu:12" in finding
    assert parse("memcheck", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


def test_answers_to_posted_commands_are_read_by_the_next_one(tmp_path: Path) -> None:
    body = """
say('{"ready": true}')
while True:
    text = line().decode().strip()
    say('{"fault": "no %s"}' % text if text.startswith("bad") else '{"done": "%s"}' % text)
"""
    player = script(tmp_path, body)
    player.wait_ready()
    player.post("first")
    player.post("second")
    assert player.command("third", 5) == {"done": "third"}
    player.post("bad one")
    player.post("bad two")
    assert player.command("fourth", 5) == {"fault": "no bad one"}
    assert player.command("fifth", 5) == {"done": "fifth"}
    player.kill()
