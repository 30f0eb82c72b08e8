"""The public Python API: functions to optimize, judge and profile kernels. The commands call them too.

Imports are lazy: a name's module is imported when the name is first used. So a command that only shows a task
imports neither the judge nor the search.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelblaster.api.asking import AskTell, session
    from kernelblaster.api.benching import BenchResult, bench
    from kernelblaster.api.judging import emulate, evaluate, profile
    from kernelblaster.api.optimizing import compile, load_run, optimize, resume
    from kernelblaster.api.result import OptimizeResult
    from kernelblaster.api.steering import steer, steering_of, stop
    from kernelblaster.api.subjects import load_candidate, load_task
    from kernelblaster.judge.judge import DeviceJudge
    from kernelblaster.judge.options import EvaluationOptions
    from kernelblaster.judge.protocol import Judge
    from kernelblaster.knowledge.knowledge_base import KnowledgeBase
    from kernelblaster.opening import DeviceKind, open_device, open_judge, open_searching
    from kernelblaster.records import Candidate, Evaluation, Profile, Step, Task
    from kernelblaster.sessions.log import Progress
    from kernelblaster.sessions.session import Advice, Session
    from kernelblaster.sessions.settings import Search

__all__ = [
    "Advice",
    "AskTell",
    "BenchResult",
    "Candidate",
    "DeviceJudge",
    "DeviceKind",
    "Evaluation",
    "EvaluationOptions",
    "Judge",
    "KnowledgeBase",
    "OptimizeResult",
    "Profile",
    "Progress",
    "Search",
    "Session",
    "Step",
    "Task",
    "bench",
    "compile",
    "emulate",
    "evaluate",
    "load_candidate",
    "load_run",
    "load_task",
    "open_device",
    "open_judge",
    "open_searching",
    "optimize",
    "profile",
    "resume",
    "session",
    "steer",
    "steering_of",
    "stop",
]
_NAMES_OF = {
    "api.asking": ("AskTell", "session"),
    "api.benching": ("BenchResult", "bench"),
    "api.judging": ("emulate", "evaluate", "profile"),
    "api.optimizing": ("compile", "load_run", "optimize", "resume"),
    "api.result": ("OptimizeResult",),
    "api.steering": ("steer", "steering_of", "stop"),
    "api.subjects": ("load_candidate", "load_task"),
    "judge.judge": ("DeviceJudge",),
    "judge.options": ("EvaluationOptions",),
    "judge.protocol": ("Judge",),
    "knowledge.knowledge_base": ("KnowledgeBase",),
    "opening": ("DeviceKind", "open_device", "open_judge", "open_searching"),
    "records": ("Candidate", "Evaluation", "Profile", "Step", "Task"),
    "sessions.log": ("Progress",),
    "sessions.session": ("Advice", "Session"),
    "sessions.settings": ("Search",),
}
_MODULES = {name: f"kernelblaster.{module}" for module, names in _NAMES_OF.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports a public name from its module on first use (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return found


def __dir__() -> list[str]:
    """The public names, as `dir()` and completion show them; works without importing any of them."""
    return sorted(__all__)
