"""Entry point of the command. API keys are moved into a separate process before anything else is loaded."""

import os
import secrets
import signal
import socket
import sys

from kernelblaster.settings import KEEPER, KEYS, keeper_address, secret

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def main() -> None:
    """Run the command line. If API keys are in the environment, the process first re-executes itself without
    them."""
    if not keeper_address():
        hide_keys()
    from kernelblaster.cli.main import main as command

    command()


def hide_keys() -> None:
    """Move the API keys of model servers out of this process. If the environment has any, a forked child (the
    key keeper, models/key_keeper.py) holds them, and this process is re-executed with an environment that
    lacks them and has the keeper's address instead; then this does not return. Without keys, nothing
    happens."""
    keys = {name: key for name in KEYS if (key := secret(name))}
    if not keys:
        return
    name = f"kernelblaster-{secrets.token_hex(16)}"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(b"\0" + name.encode())
    listening.listen(64)
    parent = os.getpid()
    if os.fork() == 0:
        _keep(listening, keys, parent)
    clean = {variable: value for variable, value in os.environ.items() if variable not in keys}
    clean[KEEPER] = " ".join([name, *keys])
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], clean)


def _keep(listening: socket.socket, keys: dict[str, str], parent: int) -> None:
    """The key keeper's process, after the fork: serves `keys` (variable name to key) on the listening socket
    and never returns. It cannot be traced or dumped (PR_SET_DUMPABLE), is killed when the process `parent`
    ends, and exits at once if either cannot be set up."""
    import ctypes

    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        hidden = prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
        bound = prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
        if not (hidden and bound) or os.getppid() != parent:
            os._exit(1)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        for variable in keys:
            del os.environ[variable]
        from kernelblaster.models.key_keeper import keep

        keep(listening, keys)
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
