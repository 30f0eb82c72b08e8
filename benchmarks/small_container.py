"""Every command in a small container: a read-only root, 64 MB of /dev/shm, no seccomp.

python benchmarks/small_container.py [--only PLACE] [--out FILE]      (as root, on Linux)

Each place is a mount and a process namespace of its own with the rights that container engines leave to root,
or an ordinary user's. Where seccomp is to be missing, a filter around everything answers each attempt to
install one with an error. A command must work, or say in one sentence what is missing, with exit code 2;
a traceback, another code or silence is a failure of this program.
"""

import argparse
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from publish import publish

from kernelblaster.settings import settings

ROOT = Path(__file__).parents[1]
LIMIT_S = 600
SHARED_MEMORY = "size=64m"
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
PRCTL, SECCOMP, X86_64 = 157, 317, 0xC000003E
KEPT = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod"
KEPT += ",audit_write,setfcap"  # what container engines leave to root
USER = 1000
TASK = "core/level1/softmax"
VERBS = ("doctor", "evaluate", "optimize", "bench", "demo")
EMULATED = ["--device", "emulated"]


@dataclass(frozen=True)
class Where:
    """`seccomp` is the error that an attempt to install a filter gets; 0: it works. `writable`: whether the
    home folder is; nothing else ever is. `built`: what is built once for a machine is there already."""

    name: str
    seccomp: int = 0
    writable: bool = True
    root: bool = True
    built: bool = True
    rights: bool = True


PLACES = {
    one.name: one
    for one in (
        Where("home writable"),
        Where("home writable, nothing built yet", built=False),
        Where("home writable, ordinary user", root=False),
        Where("home writable, root without any rights", rights=False),
        Where("nothing writable", writable=False),
        Where("no seccomp (EINVAL), home writable", seccomp=22),
        Where("no seccomp (EPERM), ordinary user", seccomp=1, root=False),
        Where("no seccomp (EINVAL), nothing writable", seccomp=22, writable=False),
    )
}


def commands(home: Path, *, seccomp: bool) -> list[list[str]]:
    """With and without --unsafe where filters cannot be had; results of earlier ones are gone on with."""
    own = ["--runs", f"{home}/runs", "--kb", f"{home}/kb.db"]
    candidate = str(ROOT / "examples" / "softmax.cu")
    found = [
        ["doctor"],
        ["tasks", "check", TASK],
        ["evaluate", TASK, candidate, *EMULATED],
        ["optimize", TASK, *EMULATED, "--budget", "2", *own],
        ["bench", f"{ROOT}/suites/core/level1", *EMULATED, "--problems", "", "--subset", "1", "--budget", "1",
         "--workers", "2", "--folder", f"{home}/bench"],
        ["demo", *EMULATED, "--folder", f"{home}/demo"],
    ]  # fmt: skip
    return found if seccomp else found + [["--unsafe", *words] for words in found]


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), target)


def refuse_filters(error: int) -> None:
    """From now on, for this process and all that it starts."""
    ret = 0x00050000 | error
    program = [
        (0x20, 0, 0, 4), (0x15, 0, 6, X86_64), (0x20, 0, 0, 0),  # the architecture; the call's number
        (0x15, 3, 0, SECCOMP), (0x15, 0, 3, PRCTL),
        (0x20, 0, 0, 16), (0x15, 0, 1, PR_SET_SECCOMP),  # the first argument
        (0x06, 0, 0, ret), (0x06, 0, 0, 0x7FFF0000),
    ]  # fmt: skip
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    kept = ctypes.create_string_buffer(code)
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(kept)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, 2, described, 0, 0):
        raise SystemExit("no filter can be installed here")


def enter(where: Where, home: Path) -> None:
    """In namespaces of our own already: make this the place."""
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    if not where.root:  # a Python in root's home folder is to be seen all the same
        own = Path.home() / ".pyenv"
        aside = home.with_name("pyenv")
        aside.mkdir()
        mount(str(own), str(aside), "none", MS_BIND)
        mount("none", str(Path.home()), "tmpfs", 0, "mode=755,size=1m")
        own.mkdir()
        mount(str(aside), str(own), "none", MS_BIND)
    mount("none", "/dev/shm", "tmpfs", 0, SHARED_MEMORY)
    mounted = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    for place in sorted(mounted - {"/dev/shm", "/proc", "/dev/pts"}):
        mount("none", place, "none", MS_REMOUNT | MS_BIND | MS_RDONLY)
    if where.writable:
        mount(str(home), str(home), "none", MS_BIND)
        mount("none", str(home), "none", MS_REMOUNT | MS_BIND)
    os.chdir(home)


def inside(where: Where, home: Path) -> None:
    enter(where, home)
    if where.seccomp:
        refuse_filters(where.seccomp)
    user = "0" if where.root else str(USER)
    rights = ",".join(["-all", *(f"+{one}" for one in KEPT.split(","))]) if where.rights else "-all"
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", f"--bounding-set={rights}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": f"{ROOT}/src"}
    environment |= {"OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"}
    for words in commands(home, seccomp=not where.seccomp):
        command = [*as_user, sys.executable, "-m", "kernelblaster", *words]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
            code, output, errors = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            code, output, errors = -1, "", "no end"
        named = " ".join(word for word in words[:3] if word in ("--unsafe", "tasks", "check", *VERBS))
        print(json.dumps({"command": named, "code": code, "output": output, "errors": errors}), flush=True)


def judged(one: dict[str, str | int]) -> str:
    """What came of a command, in one cell."""
    everything = f"{one['output']}{one['errors']}"
    if "Traceback" in everything or one["code"] not in (0, 1, 2):
        return f"**BROKEN** (code {one['code']})"
    missing = [line for line in str(one["output"]).splitlines() if line.startswith("missing")]
    if one["code"] != 2 and not missing:
        return "works" if one["code"] == 0 else "works (code 1: not faster)"
    said = [line for line in str(one["errors"]).splitlines() if line.startswith("error:")]
    sentence = " ".join((said or missing or ["**SILENT**"])[0].split())
    return f"code {one['code']}: {sentence.removeprefix('error: ')}"


def tried(where: Where) -> list[dict[str, str | int]]:
    with tempfile.TemporaryDirectory() as made:
        home = Path(made) / "home"
        home.mkdir()
        Path(made).chmod(0o755)
        if where.built:
            cache = home / ".cache" / "kernelblaster"
            for kind in ("ptx", "native"):
                shutil.copytree(settings().cache / kind, cache / kind)
        if not where.root:
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(home)], check=True)
        command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable]
        command += [__file__, "--inside", where.name, "--home", str(home)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(places: Sequence[Where]) -> list[str]:
    lines = ["| place | command | what came of it |", "|---|---|---|"]
    for where in places:
        for one in tried(where):
            cell = judged(one).replace("|", "\\|")
            lines.append(f"| {where.name} | `{one['command']}` | {cell} |")
            print(lines[-1], flush=True)
            if "**" in cell:
                print(one["output"], one["errors"], sep="\n", flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=list(PLACES))
    parser.add_argument("--inside", choices=list(PLACES), help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.inside:
        inside(PLACES[given.inside], given.home)
        return
    publish(table([one for one in PLACES.values() if given.only in (None, one.name)]), given.out)


if __name__ == "__main__":
    main()
