"""A confined process, tried from inside: what it may do, and what it may not."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.confinement import landlock, seccomp
from kernelblaster.confinement.confine import LEAST_LANDLOCK, lacking
from kernelblaster.confinement.syscalls import ARCHITECTURES, architecture

SECRET = "planted in a file"
PROGRAM = """
import ctypes, json, os, resource, signal, socket, sqlite3, subprocess, sys, threading
from pathlib import Path
from kernelblaster.confinement.confine import Needs, confine

world = json.loads(sys.argv[1])
HOME, FILL, TASK, VICTIM = (Path(world[name]) for name in ("home", "fill", "task", "victim"))
pid, libc = int(VICTIM.name), ctypes.CDLL(None, use_errno=True)
inherited = open(HOME / "key")
confine(Needs(folders=(TASK,), writable=(FILL,), readable=(HOME / "named.txt",)))


def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def outcome(code):
    try:
        exec(code, globals())
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "done"


print(json.dumps({name: outcome(code) for name, code in json.loads(sys.argv[2]).items()}))
"""
ALLOWED = {
    "what is beside a hidden file": "assert (TASK / 'sub/data.txt').read_text() == 'data'",
    "a list of its folder": "assert 'data.txt' in os.listdir(TASK)",
    "its folder": "assert (TASK / 'data.txt').read_text() == 'data'",
    "a module of its folder": "sys.path.insert(0, str(TASK)); import beside",
    "a named file": "assert (HOME / 'named.txt').read_text()",
    "filling a folder": "(FILL / 'new').mkdir(); (FILL / 'new/file').write_text('x'); "
    "(FILL / 'new/file').rename(FILL / 'other'); (FILL / 'new').rmdir(); (FILL / 'other').unlink()",
    "a database in it": "sqlite3.connect(FILL / 'x.db').execute('create table x (y)')",
    "programs": "assert subprocess.run(['true']).returncode == 0",
    "threads": "one = threading.Thread(target=print, args=('', ), kwargs={'end': '', 'file': sys.stderr}); "
    "one.start(); one.join()",
    "a pair of sockets": "socket.socketpair()",
    "its own children": "one = subprocess.Popen(['sleep', '60']); one.kill(); assert one.wait() == -9",
    "itself": "os.kill(os.getpid(), 0); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); os.nice(1)",
    "the processor": "assert Path('/proc/cpuinfo').read_text() and Path('/proc/self/maps').read_text()",
    "a signal by a file, which does not arrive": "import fcntl; one, other = socket.socketpair(); "
    "fcntl.fcntl(one, fcntl.F_SETOWN, pid); fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC); other.send(b'x')",
    "what was open before": "assert inherited.read()",
}
REFUSED = {
    "a key": "(HOME / 'key').read_text()",
    "a key, by another program": "assert subprocess.run(['cat', HOME / 'key'], stderr=-3).returncode == 0",
    "a hidden file of its folder": "(TASK / '.env').read_text()",
    "a hidden file further down": "(TASK / 'sub/.env').read_text()",
    "a file in a hidden folder further down": "(TASK / 'sub/.ssh/key').read_text()",
    "a link out of its folder": "(TASK / 'link').read_text()",
    "a linked folder": "(TASK / 'linked/key').read_text()",
    "the home folder": "os.listdir(HOME)",
    "users": "Path('/etc/passwd').read_text()",
    "other processes": "os.listdir('/proc')",
    "another's arguments": "(VICTIM / 'cmdline').read_bytes()",
    "another's environment": "(VICTIM / 'environ').read_bytes()",
    "another's memory": "(VICTIM / 'mem').open('rb')",
    "writing to its folder": "(TASK / 'x').write_text('x')",
    "writing to a named file": "(HOME / 'named.txt').write_text('x')",
    "writing to the home folder": "(HOME / 'x').write_text('x')",
    "appending to a file": "(HOME / 'key').open('a')",
    "emptying a file": "os.truncate(HOME / 'key', 0)",
    "emptying a file that is opened to be read": "os.open(HOME / 'named.txt', os.O_RDONLY | os.O_TRUNC)",
    "removing a file": "(HOME / 'key').unlink()",
    "moving a file": "(HOME / 'key').rename(FILL / 'key')",
    "a second name": "os.link(HOME / 'key', FILL / 'key')",
    "a symbolic link": "os.symlink(HOME / 'key', FILL / 'link')",
    "a pipe": "os.mkfifo(FILL / 'pipe')",
    "a mode": "os.chmod(FILL, 0o777)",
    "a mode by descriptor": "os.fchmod(os.open(TASK / 'data.txt', os.O_RDONLY), 0o666)",
    "a program with its owner's rights": "os.open(FILL / 'suid', os.O_CREAT | os.O_WRONLY, 0o6755)",
    "one made by mknod": "os.mknod(FILL / 'suid', 0o104755)",
    "one without a name": "os.open(FILL, os.O_TMPFILE | os.O_WRONLY, 0o4755)",
    "an owner": "os.chown(TASK / 'data.txt', 1, 1)",
    "an attribute": "os.setxattr(TASK / 'data.txt', 'user.x', b'x')",
    "a signal": "os.kill(pid, 0)",
    "a limit of another": "resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1))",
    "the priority of another": "os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "tracing": "call(101, 16, pid, 0, 0)",
    "reading another's memory": "call(310, pid, b'', 0, b'', 0, 0)",
    "TCP": "socket.create_connection(('127.0.0.1', world['port']))",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a Unix socket": "socket.socket(socket.AF_UNIX).connect(str(HOME / 'socket'))",
    "a socket for others": "socket.socket(socket.AF_UNIX).bind(chr(0) + 'planted')",
    "a lease": "import fcntl; fcntl.fcntl(os.open(TASK / 'data.txt', os.O_RDONLY), 1024, fcntl.F_WRLCK)",
    "hearing of changes": "import fcntl; fcntl.fcntl(os.open('/usr', os.O_RDONLY), 1026, 4)",
    "its mark": "Path('/proc/self/oom_score_adj').write_text('900')",
    "a Unix datagram": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "a namespace": "call(272, 0x10000000)",
    "io_uring": "call(425, 8, bytes(120))",
    "keys of the kernel": "call(250, 0, -3, 0)",
    "shared memory of System V": "call(29, 1, 4096, 0o1600)",
    "calls of another architecture": "call(0x40000000 + 39)",
    "calls that nobody knows": "call(480)",
    "a terminal's input": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
}
BY_NUMBER = (
    "tracing",
    "reading another's memory",
    "a namespace",
    "keys of the kernel",
    "shared memory of System V",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if lacking() or landlock.version() < landlock.SCOPES_SINCE:
        pytest.skip(f"this kernel cannot confine all of it: {lacking()}")
    folder = tmp_path_factory.mktemp("world")
    home, fill, task = (folder / name for name in ("home", "fill", "home/task"))
    task.mkdir(parents=True)
    fill.mkdir()
    (task / "sub/.ssh").mkdir(parents=True)
    (task / "sub/data.txt").write_text("data")
    for name in ("key", "named.txt", "task/.env", "task/sub/.env", "task/sub/.ssh/key"):
        (home / name).write_text(SECRET)
    (task / "data.txt").write_text("data")
    (task / "beside.py").write_text("")
    (task / "link").symlink_to(home / "key")
    (task / "linked").symlink_to(home)
    heard: list[Any] = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
    heard[1].bind(str(home / "socket"))
    heard[1].listen()
    victim = subprocess.Popen(["sleep", "600"], env={"KEY": SECRET})
    world = {"home": str(home), "fill": str(fill), "task": str(task), "victim": f"/proc/{victim.pid}"}
    world_and_port = {**world, "port": heard[0].getsockname()[1]}
    asked = json.dumps(world_and_port), json.dumps(ALLOWED | REFUSED)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *asked],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(Path("src").absolute())},
    )
    assert victim.poll() is None
    victim.kill()
    victim.wait()
    for one in heard:
        one.close()
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in home.iterdir()) == ["key", "named.txt", "socket", "task"]
    assert {(home / name).read_text() for name in ("key", "named.txt")} == {SECRET}
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", ALLOWED)
def test_what_it_needs_works(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "done"


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused(outcomes: dict[str, str], name: str) -> None:
    if name in BY_NUMBER and architecture() != ARCHITECTURES["x86_64"]:
        pytest.skip("the numbers are another architecture's")
    assert outcomes[name] != "done"


def test_a_process_with_threads_is_not_confined() -> None:
    code = """
import threading, time
from kernelblaster.confinement.confine import Needs, confine
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
confine(Needs())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "has 2 threads, and only one can be confined" in done.stderr


@pytest.mark.parametrize("version", [0, 1])
def test_a_kernel_without_landlock_is_lacking(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(landlock, "version", lambda: version)
    assert version < LEAST_LANDLOCK and "no Landlock" in lacking()


@pytest.mark.parametrize("known", ARCHITECTURES.values())
def test_the_filter_is_a_program_that_ends(known: int) -> None:
    """Each instruction leads to a later one of the program, and the last one returns."""
    code = seccomp._code(known, listening=False)
    for index, one in enumerate(code):
        if one.code in (seccomp.JUMP_EQUAL, seccomp.JUMP_LEAST):
            assert index + 1 + max(one.then, one.otherwise) < len(code)
    assert code[-1].code == seccomp.RETURN and len(code) < 4096
