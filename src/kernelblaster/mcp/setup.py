"""What an MCP server may use (folders, device, knowledge base), and limits on what agents may ask for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LONGEST_SOURCE = 400_000  # characters of a candidate or a task
LONGEST_REPLY = 60_000  # characters of a text that a tool returns
LONGEST_WAIT_S = 50.0  # that a tool waits for news: many clients give up after a minute
JUDGE_LIMIT_S = 900.0  # for one evaluation, profile or check
MOST_WAITING = 16  # requests that wait for the judge
MOST_SEARCHES = 2  # that run at the same time
MOST_CANDIDATES = 500  # that one search may judge
MOST_SECONDS = 6 * 3600.0  # that one search may take


@dataclass(frozen=True)
class AgentSetup:
    """What an MCP server lets agents work with. `folders`: agents may name and write files in these. `runs`
    is the folder of runs, `data` a folder for tasks and questions, `knowledge` the knowledge base (a file or
    a URL). `device` and `gpu` say what to judge on: "cuda" is the GPU of this machine, "emulated" an emulator
    that stands for `gpu`, and "auto" the GPU if there is one. `trusted`: files of tasks may have any Python
    code, and it is run."""

    folders: tuple[Path, ...]
    runs: Path
    data: Path
    knowledge: str
    device: Literal["auto", "cuda", "emulated"] = "auto"
    gpu: str | None = None
    trusted: bool = False
