"""Errors that a person can act on. A bad kernel is not an error but an outcome (`records/outcome.py`)."""


class KernelBlasterError(Exception):
    """Base of all errors that a person can act on; the message says what happened, to which file, and what to
    do."""


class BadTask(KernelBlasterError):
    """A task file that cannot be used."""


class NoDevice(KernelBlasterError):
    """The work needs a GPU, and none is usable."""


class NoCompiler(KernelBlasterError):
    """The work needs nvcc (and a host compiler), and none was found."""


class DeviceLost(KernelBlasterError):
    """The GPU, its driver or the harness failed. This says nothing about the candidate."""


class Shortage(KernelBlasterError):
    """This machine lacks disk space, memory or a permission. This says nothing about the task."""


class KnowledgeError(KernelBlasterError):
    """A knowledge base or a document that cannot be read, or cannot be written."""


class StoreError(KernelBlasterError):
    """A run that cannot be read, or cannot be written."""
