"""Errors that a person can act on. A bad kernel is not an error but an outcome (`records/outcome.py`)."""


class KernelBlasterError(Exception):
    """Base of all errors that a person can act on. The message says what happened, to which file, and what to
    do; the command line prints it without a traceback."""


class BadTask(KernelBlasterError):
    """A task file that cannot be used: it cannot be read, run or scored, or lacks something the command
    needs."""


class NoDevice(KernelBlasterError):
    """Raised where a GPU is needed and none is usable; the message says why."""


class NoCompiler(KernelBlasterError):
    """Raised where nvcc (and a host compiler) is needed and none was found; the message says how to get
    it."""


class DeviceLost(KernelBlasterError):
    """The GPU, its driver or a process of this program failed. This says nothing about the candidate, so it
    is raised and never recorded as an outcome."""


class Shortage(KernelBlasterError):
    """This machine lacks disk space, memory or a permission. This says nothing about the task or the
    candidate."""


class KnowledgeError(KernelBlasterError):
    """A knowledge base, or a document exported from one, cannot be read or written, or a change does not
    apply to it."""


class KnowledgeUnreachable(KnowledgeError):
    """The database of a knowledge base cannot be reached now, and may be later."""


class StoreError(KernelBlasterError):
    """A run (the recorded log and files of one search) cannot be found, read or written, or lacks what is
    asked of it, such as a correct candidate."""


class StoreUnreachable(StoreError):
    """The database in which runs are kept cannot be reached now, and may be later."""


class SearchStopped(KernelBlasterError):
    """A person has asked a running search to stop. What it has judged is recorded, and it can be resumed."""
