"""Searches that agents start, watch, steer and stop: each is a process of its own, which continues without
the server."""

import asyncio
import re
import secrets
import time
from pathlib import Path
from typing import Any

from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.mcp.judge_process import JudgeProcess, Say, ignore_progress
from kernelblaster.mcp.setup import LONGEST_WAIT_S, MOST_SEARCHES, AgentSetup
from kernelblaster.models.names import parse_name
from kernelblaster.plain_text import printable
from kernelblaster.records import Step
from kernelblaster.report.run.slim import slim_event
from kernelblaster.serve.resuming import ResumedRuns
from kernelblaster.store.control import steer_run, stop_run
from kernelblaster.store.events import first_event
from kernelblaster.store.follow import FollowedRun
from kernelblaster.store.history import History
from kernelblaster.store.run import LOG, run_folders
from kernelblaster.store.steering import describe_action
from kernelblaster.store.writer import writer_of

PAUSE_S = 0.25
STEPS_SHOWN = 12
RUNS_SHOWN = 40
NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
BY = "mcp"


class Searches:
    """The searches that agents have started on one server, and all other runs (recorded searches) in the
    server's folder of runs. `setup` is the server's configuration, `judge` the process that judges. A run is
    found by name in that folder and nowhere else."""

    def __init__(self, setup: AgentSetup, judge: JudgeProcess) -> None:
        self._setup = setup
        self._judge = judge
        self._started = ResumedRuns()

    def folder(self, run: str) -> Path:
        """Returns the folder of the run that an agent names, by its exact name or as `last`. Raises
        StoreError if there is none."""
        folders = run_folders(self._setup.runs)
        if run == "last" and folders:
            return folders[-1]
        found = [one for one in folders if one.name == run]
        if not found or not NAME.fullmatch(run):
            raise StoreError(f"there is no run {printable(run[:100])!r}; list_runs names all.")
        return found[0]

    async def start(
        self,
        task: dict[str, Any],
        budget: int,
        seconds: float | None,
        *,
        agent: bool,
        say: Say = ignore_progress,
    ) -> dict[str, Any]:
        """Starts a search in a new process, of at most `budget` candidates and `seconds` (None: no limit),
        and does not wait for it. `task` has the task's "name", the "path" of its file, and whether it is
        "shipped" with the package. Returns {"run": the run's name, "state": "starting"}. With `agent`, agents
        answer its questions in place of a language model. `say` is called with progress. Raises
        KernelBlasterError if two searches (MOST_SEARCHES) run already."""
        if self._started.running >= MOST_SEARCHES:
            raise KernelBlasterError(
                f"{self._started.running} searches run already; wait for one, or stop one with stop_search."
            )
        questions = str(self._setup.data / "questions" / secrets.token_hex(6)) if agent else None
        made = await self._judge.ask(
            "prepare_search", say, task=task, budget=budget, seconds=seconds, questions=questions
        )
        await self._judge.release()
        self._started.start(self._setup.runs / made["run"])
        return {"run": made["run"], "state": "starting"}

    async def resume(self, run: str) -> dict[str, Any]:
        """Continues the search of a run in a new process. First has the judge's process give the GPU back, so
        that the search can use it. Returns the run's name and state without waiting for the search."""
        folder = self.folder(run)
        await self._judge.release()
        self._started.start(folder)
        return {"run": folder.name, "state": "starting"}

    def runs(self) -> list[dict[str, Any]]:
        """Returns the latest 40 runs (RUNS_SHOWN) as JSON data (name, task, who writes the candidates), the
        newest first."""
        listed = []
        for folder in reversed(run_folders(self._setup.runs)[-RUNS_SHOWN:]):
            first = first_event(folder / LOG)
            about = first.data if first else {}
            by = "agent" if about.get("by") == "agent" else "search"
            listed.append({"run": folder.name, "task": about.get("task", "?"), "candidates_by": by})
        return listed

    def state(self, run: str) -> dict[str, Any]:
        """Returns the state of a run so far as JSON data: running or not, best speedup, times in
        microseconds, and the last steps. Raises StoreError if there is no such run."""
        folder = self.folder(run)
        return self._summary(_followed(folder))

    async def watch(self, run: str, wait_s: float, say: Say = ignore_progress) -> dict[str, Any]:
        """Waits until another candidate of a run is judged or the run ends, for up to `wait_s` seconds (50 at
        most, LONGEST_WAIT_S). Returns the run's state as JSON data: running or not, best speedup, times in
        microseconds, and the last steps. `say` is called with progress."""
        folder = self.folder(run)
        until = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        followed = await asyncio.to_thread(_followed, folder)
        summary = await asyncio.to_thread(self._summary, followed)
        seen = summary["judged"]
        begun = summary["state"]
        while summary["state"] in ("running", "starting") and time.monotonic() < until:
            await asyncio.sleep(PAUSE_S)
            if not await asyncio.to_thread(followed.update) and summary["state"] == begun == "running":
                summary["state"] = _state(followed, writer_of(folder), self._started.notice(folder))
                continue
            summary = await asyncio.to_thread(self._summary, followed)
            if summary["judged"] != seen:
                await say(f"{summary['judged']} candidates judged, best {summary.get('speedup', '-')}x")
                break
        return await asyncio.to_thread(self._summary, followed)

    def steer(self, run: str, **wanted: Any) -> dict[str, Any]:
        """Asks the search of `run`, while it runs, for other limits or techniques, or leaves it a note;
        `wanted` are the arguments of `kernelblaster.steer`. Returns in words what was asked. Raises
        KernelBlasterError if `wanted` asks for nothing."""
        commands = steer_run(self.folder(run), by=BY, **wanted)
        if not commands:
            raise KernelBlasterError(
                "nothing was asked for: give budget, seconds, pin, forbid, release or note."
            )
        return {"asked": [describe_action(one.action) for one in commands], "obeyed": "before its next step"}

    def stop(self, run: str, *, now: bool) -> dict[str, Any]:
        """Stops the search of a run: it ends before its next candidate or, with `now`, its process is ended
        at once. What it has judged is kept. Returns in words what was done."""
        folder = self.folder(run)
        stop_run(folder, now=now, by=BY)
        words = "stopped" if now else "asked to stop; it does before its next candidate"
        return {
            "run": folder.name,
            "done": words,
            "next": "resume_search goes on with it; export gives its best.",
        }

    def questions_of(self, run: str) -> Path:
        """Returns the folder in which the search of `run` leaves its questions for agents. Raises StoreError
        if the search asks none."""
        folder = self.folder(run)
        first = first_event(folder / LOG)
        choice = ((first.data if first else {}).get("models") or {}).get("choice") or {}
        name = choice.get("model")
        named = parse_name(name) if isinstance(name, str) else None
        if named is None or named.kind != "handoff":
            raise StoreError(f"{folder.name}: asks no agent; start one with start_search and agent=true.")
        return Path(named.rest)

    def _summary(self, followed: FollowedRun) -> dict[str, Any]:
        """A run as short JSON data: its state, the best candidate's speedup and times in us, and the last
        steps."""
        history = History(followed)
        notice = self._started.notice(followed.folder)
        state = _state(followed, writer_of(followed.folder), notice)
        data: dict[str, Any] = {"run": followed.name, "task": history.task, "state": state}
        data |= {"judged": len(history.judged), "budget": history.limit}
        best = history.best
        if best is not None and best.speedup is not None:
            timing = best.verdict.get("timing") or {}
            data |= {"outcome": best.outcome, "speedup": round(best.speedup, 4)}
            data |= {
                name: round(timing[name], 2)
                for name in ("candidate_us", "baseline_us", "floor_us")
                if name in timing
            }
            data["modelled"] = bool(timing.get("modelled"))
            data["best_source"] = best.source
        if history.stopped:
            data["stopped"] = history.stopped
        if notice:
            data["notice"] = printable(notice)[:2000]
        data["steps"] = [_step(step) for step in history.steps[-STEPS_SHOWN:]]
        data["steps_in_all"] = len(history.steps)
        return {key: value for key, value in data.items() if value is not None}


def _followed(folder: Path) -> FollowedRun:
    """Opens the run in a folder for reading while another process may write it, with all events so far, of
    which only what summaries need is kept."""
    followed = FollowedRun(folder, slim_event)
    followed.update()
    return followed


def _state(followed: FollowedRun, writer: int | None, notice: str) -> str:
    """The state of a run in one word: `starting`, `running`, `finished`, `stopped`, `interrupted` or
    `failed`. `writer` is the process id of who writes it (None: nobody), `notice` what its start reported."""
    if writer is None and notice:
        return "starting" if "getting ready" in notice else "failed"
    return History(followed).state(writer)


def _step(step: Step) -> dict[str, Any]:
    """A step as JSON data: technique, performance state, predicted speedup, and its speedup or how it
    failed."""
    result = {"speedup": round(step.speedup, 3)} if step.speedup is not None else {"failed": step.failure}
    about = {"technique": step.technique, "state": step.state, "predicted": round(step.predicted, 3)}
    return about | result | ({"taken": True} if step.taken else {})
