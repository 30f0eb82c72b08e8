"""The toolbox with a stand-in for the worker, under a tool that only runs it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost

TOOL = ["/usr/bin/env"]
WORKER = """#!{python}
import json, os, sys, time
commands, replies, owner = sys.argv[3:6]
out = open(replies, "w", buffering=1)
time.sleep(0.3)
print(json.dumps({{"ready": True}}), file=out)
with open("{folder}/started", "a") as file:
    print(os.getpid(), file=file)
while not os.path.exists(commands):
    if not os.path.exists(os.path.dirname(commands)):
        sys.exit()
    time.sleep(0.005)
for line in open(commands):
    if line.startswith("profile"):
        print(json.dumps({fault}), file=out)
print("the tool's words")
"""


def toolbox(folder: Path, fault: str = '{"work": []}') -> Toolbox:
    worker = folder / "worker"
    worker.write_text(WORKER.format(python=sys.executable, folder=folder, fault=fault))
    worker.chmod(0o755)
    return Toolbox(worker, {"PATH": os.environ["PATH"]})


def job(folder: Path) -> ProfileJob:
    return ProfileJob(folder / "candidate.so", [], "primary", 64)


def started(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "started").read_text().split()]


def gone(process: int) -> bool:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.02)
    return False


def test_each_job_is_answered(tmp_path: Path) -> None:
    output, answers = toolbox(tmp_path).run(TOOL, "ab", [job(tmp_path), job(tmp_path)])
    assert answers == [{"work": []}] * 2
    assert "the tool's words" in output
    assert len(started(tmp_path)) == 1


def test_what_is_wanted_again_is_started_ahead(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, "ab", [job(tmp_path)], again=True)
    tools.settle()
    first, ahead = started(tmp_path)
    tools.run(TOOL, "cd", [job(tmp_path)])
    assert started(tmp_path) == [first, ahead]
    tools.close()


def test_what_was_started_ahead_ends_with_the_toolbox(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, "ab", [job(tmp_path)], again=True)
    tools.settle()
    tools.close()
    assert all(gone(process) for process in started(tmp_path))


def test_what_died_while_it_waited_is_started_anew(tmp_path: Path) -> None:
    tools = toolbox(tmp_path)
    tools.run(TOOL, "ab", [job(tmp_path)], again=True)
    tools.settle()
    subprocess.run(["kill", "-9", str(started(tmp_path)[-1])], check=True)
    time.sleep(0.2)
    assert tools.run(TOOL, "ab", [job(tmp_path)])[1] == [{"work": []}]


def test_a_fault_under_a_tool(tmp_path: Path) -> None:
    with pytest.raises(DeviceLost, match="under /usr/bin/env: out of memory"):
        toolbox(tmp_path, '{"fault": "out of memory"}').run(TOOL, "ab", [job(tmp_path)], again=True)
