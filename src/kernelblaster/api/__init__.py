"""The public Python API: functions that optimize, judge and profile kernels. The commands call them too."""

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
