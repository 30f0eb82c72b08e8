"""Which of the server's tools work on a task, in words for agents."""

from collections.abc import Iterable

from kernelblaster.readiness import Readiness

TOOLS = (
    ("evaluate", "evaluate", "evaluate --device emulated"),
    ("emulate", "evaluate --device emulated", "evaluate --device emulated"),
    ("start_search", "optimize", "optimize --device emulated"),
    ("start_search with agent=true", "optimize --model", "optimize --model"),
    ("export as cu", "export --format cu", "export --format cu"),
    ("export as kernelbench", "export --format kernelbench", "export --format kernelbench"),
    ("export as module", "export --format module", "export --format module"),
)
"""Tools of the server, each with the command that does the same on a GPU and on the emulated device."""


def which_work(found: Iterable[Readiness], *, emulated: bool) -> dict[str, str]:
    """Returns, for each tool by its name, whether it works on a task: "works", or the reason why it does not.
    `found` says which commands work on the task and why others do not; tools correspond to commands.
    `emulated`: the server's device is the emulated one."""
    why = {one.verb: one.why for one in found}
    return {tool: in_words(why[on_emulator if emulated else verb]) for tool, verb, on_emulator in TOOLS}


def in_words(why: str | None) -> str:
    """Returns "works" if `why` is None, else the reason `why` a tool does not work on a task. Advice on
    language models at its end, which is meant for people, is cut off."""
    return "works" if why is None else why.partition(" A language model can")[0]
