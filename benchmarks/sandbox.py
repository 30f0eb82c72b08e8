"""What host code of a candidate can reach from where it is run: system calls that it has no business with.

python benchmarks/sandbox.py [--user 65533] [--out results/sandbox.md]

Every probe is a process of its own in the recorder's sandbox. It must be refused (EPERM) or end the process;
one that gets through is a hole. With --user, the recorder itself runs as that user; this needs root, and a
cache that the user can read (KERNELBLASTER_CACHE).
"""

import argparse
import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelblaster.devices import window
from kernelblaster.devices.device import CandidateDied, CandidateHung, GpuFacts
from kernelblaster.devices.device_code import OBJECT, PTX, DeviceCode
from kernelblaster.devices.launch_list import LaunchList
from kernelblaster.devices.recorder import CallToRecord, Recordable, Recorder

PROBES = {
    "files": """open("/etc/passwd", 0) open("/etc/shadow", 0) open("/proc/self/environ", 0)
        open("/proc/self/maps", 0) open("/proc/self/mem", 2) open("/proc/1/environ", 0)
        open("/dev/mem", 0) open("/dev/nvidia0", 2) open("/root/.ssh/id_rsa", 0) open("/", 0)
        openat(AT_FDCWD, "/new", O_CREAT|O_WRONLY, 0600) open("/candidate.so", 2)
        unlink("/candidate.so") rename("/candidate.so", "/x") link("/candidate.so", "/x")
        symlink("/etc/passwd", "/x") mkdir("/x", 0700) chmod("/", 0777) chown("/", 0, 0)
        truncate("/candidate.so", 0) readlink("/proc/self/exe", buffer, 64) getdents64(0, buffer, 64)
        statfs("/", buffer) access("/etc/passwd", 4) mknod("/x", S_IFCHR|0600, 259)
        name_to_handle_at(AT_FDCWD, "/", buffer, buffer, 0) open_by_handle_at(AT_FDCWD, buffer, 0)
        openat2(AT_FDCWD, "/etc/passwd", buffer, 24)""",
    "descriptors": """read(0, buffer, 1) dup(3) dup2(3, 1) close(3) fcntl(3, F_SETFL, 0) lseek(3, 0, 0)
        splice(0, 0, 3, 0, 1, 0) sendfile(3, 0, 0, 1) pipe2(buffer, 0) eventfd2(0, 0)
        memfd_create("x", 0) epoll_create1(0) inotify_init1(0) ioctl(1, 0x5412, buffer)
        poll(buffer, 1, 0) pread64(3, buffer, 1, 0)""",
    "network": """socket(AF_INET, SOCK_STREAM, 0) socket(AF_UNIX, SOCK_STREAM, 0)
        socket(AF_NETLINK, SOCK_RAW, 0)
        socketpair(AF_UNIX, SOCK_STREAM, 0, buffer) connect(3, buffer, 16) sendto(3, buffer, 1, 0, 0, 0)""",
    "processes": """clone(SIGCHLD, 0, 0, 0, 0) clone3(buffer, 88) fork() vfork()
        execve("/candidate.so", none, none)
        execveat(AT_FDCWD, "/candidate.so", none, none, 0) kill(getppid(), 0) kill(-1, SIGKILL)
        tgkill(getppid(), getppid(), SIGKILL)
        ptrace(16, getppid(), 0, 0)
        process_vm_readv(getppid(), buffer, 1, buffer, 1, 0)
        process_vm_writev(getppid(), buffer, 1, buffer, 1, 0) pidfd_open(getppid(), 0)
        pidfd_getfd(0, 0, 0) setsid() setpgid(0, 0) wait4(-1, 0, 0, 0) prctl(1, 0, 0, 0, 0)
        prctl(4, 1, 0, 0, 0) unshare(CLONE_NEWUSER) setns(0, 0) personality(0)""",
    "rights": """setuid(0) setgid(0) setresuid(0, 0, 0) setgroups(0, 0) capset(buffer, buffer) chroot("/")
        mount("/", "/", 0, 0, 0) umount2("/", 0) pivot_root("/", "/") setrlimit(RLIMIT_AS, buffer)
        prlimit64(getppid(), RLIMIT_AS, buffer, 0) setpriority(0, 0, -5) sched_setaffinity(0, 8, buffer)
        seccomp(1, 0, buffer) keyctl(0, 0, 0, 0, 0) add_key("user", "x", buffer, 1, 0)
        bpf(0, buffer, 64) perf_event_open(buffer, 0, -1, -1, 0) init_module(buffer, 1, "")
        reboot(0, 0, 0, 0) syslog(3, buffer, 64) swapon("/x", 0) quotactl(0, 0, 0, 0) acct("/x") iopl(3)
        modify_ldt(0, buffer, 64)""",
    "memory": """executable() turned_executable() mapped_file() shmget(1234, 1<<30, IPC_CREAT|0600)
        msgget(1234, IPC_CREAT|0600) semget(1234, 1, IPC_CREAT|0600)
        mq_open("/x", O_CREAT|O_RDWR, 0600, 0) userfaultfd(0) mlockall(1)
        remap_file_pages(0, 0, 0, 0, 0) process_madvise(0, 0, 0, 0, 0) io_uring_setup(1, buffer)
        pkey_alloc(0, 0)""",
    "time": """nanosleep(&t, 0) clock_nanosleep(0, 0, &t, 0) clock_settime(0, &t) timer_create(0, 0, buffer)
        timerfd_create(0, 0) setitimer(0, buffer, 0) getitimer(0, buffer) adjtimex(buffer) alarm(1)""",
}
OWN = {"executable": "own_executable()", "turned_executable": "own_turned()", "mapped_file": "own_mapped()"}
CODE = r"""
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
extern "C" int cudaMallocAsync(void**, size_t, void*);
static char buffer[4096] __attribute__((aligned(4096)));
static char* none[] = {nullptr};
static timespec t = {0, 1};
static long own_executable() { return (long)mmap(nullptr, 4096, 5, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static long own_turned() { return mprotect(buffer, 4096, 7); }
static long own_mapped() { return (long)mmap(nullptr, 4096, 1, MAP_PRIVATE, 3, 0); }
static long getppid_() { return syscall(SYS_getppid); }
#define getppid getppid_
extern "C" void kernelblaster_call(void* const* a, void* stream) {
  long result = 0;
  errno = 0;
  switch (*(int64_t*)a[0]) {
%s
  }
  void* p;
  cudaMallocAsync(&p, 1 + (size_t)(result < 0 ? errno : 0), stream);
}
"""


def probes() -> list[tuple[str, str]]:
    """(kind, call) of every probe."""
    found = []
    for kind, text in PROBES.items():
        depth, current = 0, ""
        for character in " ".join(text.split()):
            depth += (character == "(") - (character == ")")
            current += character
            if character == ")" and depth == 0:
                found.append((kind, current.strip()))
                current = ""
    return found


def called(call: str) -> str:
    name, _, rest = call.partition("(")
    return OWN.get(name, f"syscall(SYS_{name}{', ' if rest != ')' else ''}{rest}")


def run() -> list[tuple[str, str, str, bool]]:
    """(kind, call, what came of it, whether it was refused)."""
    wanted = probes()
    cases = "\n".join(
        f"#if defined(SYS_{call.partition('(')[0]}) || {int(call.partition('(')[0] in OWN)}\n"
        f"    case {number}: result = {called(call)}; break;\n"
        f"#else\n    case {number}: result = -1; errno = ENOSYS; break;\n#endif"
        for number, (_, call) in enumerate(wanted)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "host.cpp").write_text(CODE % cases)
        (folder / PTX).write_text("")
        command = ["g++", "-O1", "-shared", "-fPIC", "-w", "-fpermissive", "host.cpp", "-o", OBJECT]
        subprocess.run(command, cwd=folder, check=True)
        candidate = Recordable(folder, DeviceCode({}, {}), GpuFacts("a GPU", 1 << 36, {}), {})
        recorder = Recorder()
        results = []
        try:
            for number, (kind, call) in enumerate(wanted):
                one = CallToRecord((number,), window.SCRATCH, False, 4096)
                results.append((kind, call, *verdict(recorder.record(candidate, [one], 5.0)[0])))
        finally:
            recorder.close()
    return results


def verdict(found: LaunchList | CandidateDied | CandidateHung) -> tuple[str, bool]:
    if not isinstance(found, LaunchList):
        return str(found), True
    code = next(iter(found.scratch.values())) - 1
    return errno.errorcode.get(code, str(code)) if code else "got through", code in (
        errno.EPERM,
        errno.ENOSYS,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", type=int)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.user is not None:
        os.setgroups([])
        os.setresgid(arguments.user, arguments.user, arguments.user)
        os.setresuid(arguments.user, arguments.user, arguments.user)
    results = run()
    holes = [(call, what) for _, call, what, refused in results if not refused]
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    print(f"{len(results)} probes as {who}: {len(results) - len(holes)} refused")
    for call, what in holes:
        print(f"  NOT REFUSED {call}: {what}")
    if arguments.out:
        lines = [f"# Probes of the sandbox, as {who}", ""]
        lines += [f"{len(results)} probes, {len(holes)} got through.", ""]
        lines += ["| kind | call | what came of it |", "|---|---|---|"]
        for kind, call, what, _ in results:
            lines.append("| {} | `{}` | {} |".format(kind, call.replace("|", "\\|"), what))
        arguments.out.write_text("\n".join(lines) + "\n")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
