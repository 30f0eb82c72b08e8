"""The process that judges: progress, errors, cancellation, its death, and limits."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.mcp import judge_process
from kernelblaster.mcp.judge_process import JudgeProcess
from kernelblaster.mcp.setup import AgentSetup
from kernelblaster.processes.workers import JobPipe

SETUP = AgentSetup((), Path(), Path(), "")


def stand_in(pipe: JobPipe, setup: AgentSetup) -> None:
    """Does what the verb says, instead of judging."""
    for number, verb, arguments in pipe.jobs():
        pipe.tell((number, "stage", f"doing {verb}"))
        if verb == "die":
            os._exit(7)
        if verb == "fail":
            pipe.tell((number, "failed", "it is wrong"))
            continue
        if verb == "sleep":
            time.sleep(60)
        pipe.tell((number, "done", {**arguments, "pid": os.getpid()}))


@pytest.fixture(autouse=True)
def stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_process, "_work", stand_in)


def test_requests_progress_errors_death_and_cancellation() -> None:
    asyncio.run(_all_of_it())


async def _all_of_it() -> None:
    process, said = JudgeProcess(SETUP), []

    async def say(stage: str) -> None:
        said.append(stage)

    first = await process.ask("do", say, x=1)
    assert first["x"] == 1 and said == ["starting the judge", "doing do"]
    with pytest.raises(KernelBlasterError, match="it is wrong"):
        await process.ask("fail")
    assert (await process.ask("do"))["pid"] == first["pid"]

    with pytest.raises(DeviceLost, match="exit code 7"):
        await process.ask("die")
    second = await process.ask("do")
    assert second["pid"] != first["pid"]

    sleeping = asyncio.ensure_future(process.ask("sleep"))
    waiting: asyncio.Future[Any] = asyncio.ensure_future(process.ask("do", say, y=2))
    await asyncio.sleep(0.3)
    assert said[-1] == "waiting for 1 other requests"
    sleeping.cancel()
    third = await waiting
    assert third["y"] == 2 and third["pid"] != second["pid"]
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    with pytest.raises(ProcessLookupError):
        os.kill(second["pid"], 0)

    process._limit_s = 0.2
    with pytest.raises(KernelBlasterError, match="longer than"):
        await process.ask("sleep")
    process.close()


def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge_process, "MOST_WAITING", 0)
    with pytest.raises(KernelBlasterError, match="try again later"):
        asyncio.run(JudgeProcess(SETUP).ask("do"))
