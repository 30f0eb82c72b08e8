"""A task whose code tries to get out. What it tries is in `probes.txt` beside it, and what it is about in
`world.json`.

Every probe is tried wherever code of a task runs: at import, in the constructor, in `forward`, in a
thread, in a forked process and in a program of its own. One line for each goes to standard error: PROBE,
place, name, outcome."""

import ctypes
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import torch

HERE = Path("@HERE@")
WORLD = json.loads((HERE / "world.json").read_text())
os.environ.setdefault("TMPDIR", "/tmp")
LIBC = ctypes.CDLL(None, use_errno=True)
BACKWARDS = [
    bytes.fromhex(text) for text in WORLD["backwards"]
]  # what is planted is not in this process by itself


class Refused(Exception):
    """What a probe raises that was refused without an error."""


def call(number, *arguments):
    """A system call, past Python."""
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def opened(path, flags=os.O_RDONLY):
    os.close(os.open(path, flags))
    return "opened"


def planted_in(data):
    """Whether something planted is in these bytes."""
    turned = data[::-1]
    return any(one in turned for one in BACKWARDS)


def in_memory():
    """Where in this process's memory something planted is; raises if nowhere."""
    found = []
    with Path("/proc/self/maps").open() as maps, Path("/proc/self/mem").open("rb", buffering=0) as memory:
        for line in maps:
            words = line.split()
            begin, end = (int(text, 16) for text in words[0].split("-"))
            if (
                "r" not in words[1]
                or end - begin > 1 << 30
                or (len(words) > 5 and words[5] in ("[vvar]", "[vsyscall]"))
            ):
                continue
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except (OSError, ValueError, OverflowError):
                continue
            found += [words[-1]] if planted_in(data) else []
    if not found:
        raise Refused("nothing planted in memory")
    return found


def ran(*command):
    done = subprocess.run(command, capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Refused(f"exit code {done.returncode}")
    return done.stdout[:20]


def asked(**message):
    """What the keeper says to a message; raises if it refuses."""
    from kernelblaster import keeper

    reply = keeper.ask(message, 20)
    if "failure" in reply:
        raise Refused(reply["failure"]["kind"])
    return reply


def probes():
    """(name, code) of each probe."""
    for line in (HERE / "probes.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, code = line.partition(": ")
            yield name.strip(), code.strip()


def attempt(place):
    space = {**globals(), "W": WORLD, "HOME": Path(WORLD["home"])}
    for name, code in probes():
        try:
            exec(compile(code if "=" in code.split("(")[0] else f"result = {code}", name, "exec"), space)
            outcome = f"THROUGH {str(space.get('result'))[:60]!r}"
        except BaseException as error:
            outcome = (
                f"refused {type(error).__name__} {getattr(error, 'errno', '') or ''} {str(error)[:60]!r}"
            )
        os.write(2, f"PROBE\t{place}\t{name}\t{outcome}\n".encode())


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        once("constructor")

    def forward(self, x):
        once("forward")
        return torch.relu(x)


def once(place):
    """Try everything at a place, once in a command."""
    mark = Path(os.environ["TMPDIR"]) / f"probed-{place}"
    if not mark.exists():
        mark.touch()
        attempt(place)


def get_inputs():
    return [torch.randn(64, 64)]


def get_init_inputs():
    return []


if __name__ == "__main__":
    attempt("program")
elif not (Path(os.environ["TMPDIR"]) / "probed-import").exists():
    once("import")
    thread = threading.Thread(target=attempt, args=("thread",))
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        attempt("fork")
        os._exit(0)
    os.waitpid(child, 0)
    subprocess.run([sys.executable, __file__], stdin=0)
    if os.fork() == 0:  # a process without a parent, a session or open files, to outlive the command
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            os.execvpe("sleep", ["sleep", "98765.4"], {"PATH": "/usr/bin:/bin"})
        os._exit(0)
