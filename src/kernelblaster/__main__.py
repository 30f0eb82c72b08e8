"""Entry point of the command `kernelblaster`. Before it loads anything else, it removes from this process
what the Python code of users' tasks must not see (API keys, passwords, most environment variables). For that
the process replaces itself by a new one (exec), which imports this module once more."""

import os
import re
import sys

from kernelblaster.processes.collection import collect_rarely
from kernelblaster.variables import KEEPER, KEYS, TRUSTED, keeper_address, task_environment

RUN_TASKS = {
    *("demo", "tasks", "evaluate", "profile", "emulate", "optimize", "resume", "verify", "bench", "ablate"),
    "export",
}
"""The commands that run code of tasks."""
TAKES_VALUE = "--readable"
URL = re.compile(r"[a-z0-9+]+://")


def main() -> None:
    """Runs the command line. If this process has API keys, passwords or other variables that the Python code
    of tasks must not see, it first re-executes itself without them (see `hide`)."""
    try:
        if not keeper_address():
            hide()
        if _runs_tasks(sys.argv[1:]):
            collect_rarely()
        from kernelblaster.cli.main import main as command
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        sys.exit(130)
    command()


def hide() -> None:
    """Removes from this process what code of tasks must not see: the API keys of model servers and, for
    commands that run tasks, passwords in arguments and environment variables that tasks do not need. Returns
    if there is nothing to remove. Otherwise these values go into a file in memory, and this process is
    re-executed without them, so that the call does not return. Only the keeper (keeper.py: a helper process
    that runs no code of tasks) reads the file."""
    arguments, trusted = sys.argv[1:], bool(os.environ.get(TRUSTED))
    ahead, runs_tasks = _before_verb(arguments), _runs_tasks(arguments)
    keys = {name: os.environ[name] for name in KEYS if os.environ.get(name)}
    harmless, addresses = _without_passwords(arguments) if runs_tasks else (arguments, {})
    seen = {name: value for name, value in os.environ.items() if name not in KEYS}
    if runs_tasks and not (trusted or "--trust-tasks" in ahead):
        seen = task_environment()
    if runs_tasks or keys:
        os.environ[KEEPER] = "-1"  # there will be one, with nothing hidden
    hidden = {name: value for name, value in os.environ.items() if name not in (*seen, *keys, KEEPER)}
    if not (keys or addresses or hidden):
        return
    import json

    file = os.memfd_create("hidden", 0)
    os.write(file, json.dumps({"keys": keys, "addresses": addresses, "variables": hidden}).encode())
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(arguments)]
    clean = {**seen, KEEPER: " ".join([str(file), *keys])}
    os.execve(sys.executable, [sys.executable, *before, *harmless], clean)


def _runs_tasks(arguments: list[str]) -> bool:
    """Whether these arguments call a command that runs code of tasks."""
    ahead = len(_before_verb(arguments))
    return len(arguments) > ahead and arguments[ahead] in RUN_TASKS


def _before_verb(arguments: list[str]) -> list[str]:
    """The arguments before the command's name (the verb, like `optimize`): options that all commands take.
    All arguments if there is no verb."""
    for index, argument in enumerate(arguments):
        value = index > 0 and arguments[index - 1] == TAKES_VALUE
        if not (argument.startswith("-") or value):
            return arguments[:index]
    return arguments


def _without_passwords(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """The arguments with *** instead of passwords in database URLs, and a dict from each URL in that form to
    the URL with its password (empty if none has one)."""
    left, addresses = [], {}
    for argument in arguments:
        option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        harmless = value
        if URL.match(value):
            from kernelblaster.passwords import shown

            harmless = shown(value)
        if harmless != value:
            addresses[harmless] = value
        left.append(option + equals + harmless)
    return left, addresses


if __name__ == "__main__":
    main()
