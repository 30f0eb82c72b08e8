"""Errors that a person can act on. Bad kernels are not errors: they are outcomes."""


class KernelBlasterError(Exception):
    """The message says what happened, to which file, and what to do next."""


class BadTask(KernelBlasterError):
    """A task file that cannot be used."""


class NoDevice(KernelBlasterError):
    """The work needs a GPU, and none is usable."""


class NoCompiler(KernelBlasterError):
    """The work needs nvcc (and a host compiler), and none was found."""


class DeviceLost(KernelBlasterError):
    """The GPU, its driver or the harness failed; nothing is known about the candidate."""


class Shortage(KernelBlasterError):
    """This machine lacks something: space, memory, permission. Nothing is known about the task."""


class KnowledgeError(KernelBlasterError):
    """A knowledge base or a document that cannot be read, or cannot be written."""


class StoreError(KernelBlasterError):
    """A run that cannot be read, or cannot be written."""
