"""Errors that a person can act on. A bad kernel is not an error but an outcome (`records/outcome.py`)."""


class KernelBlasterError(Exception):
    """Base of all errors that a person can act on. The message says what happened, to which file, and what to
    do; the command line prints it without a traceback."""


class BadTask(KernelBlasterError):
    """A task file that cannot be used: it cannot be read, run or scored, or lacks something the command
    needs."""


class NoDevice(KernelBlasterError):
    """The work needs a GPU, and none is usable."""


class NoCompiler(KernelBlasterError):
    """The work needs nvcc (and a host compiler), and none was found."""


class DeviceLost(KernelBlasterError):
    """The GPU, its driver or a process of the harness failed. This says nothing about the candidate, so it is
    raised and never recorded as an outcome."""


class Shortage(KernelBlasterError):
    """This machine lacks disk space, memory or a permission. This says nothing about the task or the
    candidate."""


class KnowledgeError(KernelBlasterError):
    """A knowledge base, or a document exported from one, cannot be read or written, or a change does not
    apply to it."""


class StoreError(KernelBlasterError):
    """A run (the recorded log and files of one search) cannot be read or written."""


class SearchStopped(KernelBlasterError):
    """A person has asked a running search to stop. What it has judged is recorded, and it can be resumed."""
