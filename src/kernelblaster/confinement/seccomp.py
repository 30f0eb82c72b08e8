"""A seccomp filter of system calls for what Landlock does not govern: sockets, tracing, mounts, keys, the
clock, modes and owners of files, System V shared memory, a terminal's input.

It lists what is refused, since a process with PyTorch and compilers needs most of the rest; calls that are
newer than this list are refused too. Compiled candidates run under another filter, which lists what is
allowed instead (devices/native/sandbox.cpp).
"""

import ctypes
import errno
import os
import socket
import struct
from typing import NamedTuple

from kernelblaster.confinement.syscalls import FIRST_UNKNOWN, architecture, number

REFUSED = (
    *("process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd"),
    *("mount", "umount2", "pivot_root", "open_tree", "open_tree_attr", "move_mount", "mount_setattr"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "unshare", "setns"),
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("fanotify_init", "inotify_init", "inotify_init1", "keyctl", "add_key", "request_key"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm", "modify_ldt"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("vhangup", "name_to_handle_at", "open_by_handle_at", "truncate"),
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    *("shmget", "shmat", "shmctl", "shmdt", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("semget", "semop", "semctl", "semtimedop", "mq_open", "mq_unlink"),
)
OF_OTHERS = {  # the position of a process's number in calls that are allowed for the calling one (0) only
    "prlimit64": 0,
    "setpriority": 1,
    "ioprio_set": 1,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setscheduler": 0,
    "sched_setparam": 0,
    "migrate_pages": 0,
    "move_pages": 0,
}
# Requests of ptrace that reach only processes which asked their parent to be traced (PTRACE_TRACEME):
# memory and registers, going on, single steps, options. The recorder follows host code by them; to attach
# to a process, or to seize it, is refused.
OWN_CHILDREN = (0, 1, 2, 4, 5, 7, 9, 12, 13, 14, 0x4200)
MISSING = ("openat2", "clone3")  # their flags are in memory, where a filter cannot look; others stand in
NEW_NAMESPACES = 0x7E020080  # CLONE_NEW...
TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
SET_USER_OR_GROUP = 0o6000  # a program of root's that others may start
LEASE_OR_NOTIFY = (1024, 1026)  # of fcntl: keep others from opening a file, hear what they do in a folder
KIND_OF_SOCKET = 0xF  # the rest are flags
WHOLE = 0xFFFFFFFF
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER, ALL_THREADS, NO_MITIGATION = 1, 1, 4
LOAD, AND, RETURN, JUMP, JUMP_EQUAL, JUMP_LEAST = 0x20, 0x54, 0x06, 0x05, 0x15, 0x35  # of BPF
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in what a filter sees


class Condition(NamedTuple):
    """A condition on one argument of a system call, in a seccomp rule. `argument` is the argument's position
    from 0. Of its lower 32 bits, those in the mask `bits` are compared. The condition holds if they equal one
    of `values`; with `other`, if they equal none of them."""

    argument: int
    values: tuple[int, ...]
    bits: int = WHOLE
    other: bool = False


class _Instruction(NamedTuple):
    code: int
    value: int
    then: int = 0  # instructions to skip
    otherwise: int = 0


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def install(*, listening: bool = False) -> None:
    """Filter the system calls of all threads of this process and of whatever they start, which cannot be
    undone. With `listening`, sockets may be bound, which CUDA's driver does. Raises OSError if the kernel
    refuses, or the machine's architecture is not known."""
    known = architecture()
    if known is None:
        raise OSError(errno.ENOSYS, "the system calls of this architecture are not known")
    code = b"".join(
        struct.pack("=HBBI", one.code, one.then, one.otherwise, one.value) for one in _code(known, listening)
    )
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # else only root may
    flags = ALL_THREADS | NO_MITIGATION  # as fast as without
    if libc.syscall(number("seccomp"), SET_MODE_FILTER, flags, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _code(architecture: int, listening: bool) -> list[_Instruction]:
    """The filter as instructions of the kernel's packet filter (BPF). `architecture` is seccomp's number for
    it; with `listening`, bind and listen are allowed."""
    code = [
        _Instruction(LOAD, ARCHITECTURE),
        _Instruction(JUMP_EQUAL, architecture, 1),
        _refuse(errno.ENOSYS),
    ]
    code += [_Instruction(LOAD, NUMBER), _Instruction(JUMP_LEAST, FIRST_UNKNOWN, 0, 1), _refuse(errno.ENOSYS)]
    for name in REFUSED:
        code += _rule(name, errno.EPERM)
    for name in MISSING:
        code += _rule(name, errno.ENOSYS)
    for name in () if listening else ("bind", "listen"):  # others could connect to it
        code += _rule(name, errno.EACCES)
    code += _rule("ptrace", errno.EPERM, Condition(0, OWN_CHILDREN))
    code += _rule("connect", errno.ECONNREFUSED)
    plain = Condition(0, (socket.AF_UNIX,))
    connected = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)  # datagrams may have addresses
    single = connected if listening else (socket.SOCK_STREAM,)  # CUDA's driver binds one of packets
    code += _rule("socket", errno.EACCES, plain, Condition(1, single, KIND_OF_SOCKET))
    code += _rule("socketpair", errno.EACCES, plain, Condition(1, connected, KIND_OF_SOCKET))
    code += _rule("clone", errno.EPERM, Condition(0, (0,), NEW_NAMESPACES))
    code += _rule("ioctl", errno.EPERM, Condition(1, TERMINAL_INPUT, other=True))
    emptied = (os.O_TRUNC, os.O_TRUNC | os.O_ACCMODE)  # without asking to write
    for name, position in (("openat", 2), ("open", 1)):
        kept = Condition(position, emptied, os.O_TRUNC | os.O_ACCMODE, other=True)
        code += _rule(name, errno.EPERM, kept, Condition(position + 1, (0,), SET_USER_OR_GROUP))
    for name, position in (("mknodat", 2), ("mknod", 1), ("creat", 1)):
        code += _rule(name, errno.EPERM, Condition(position, (0,), SET_USER_OR_GROUP))
    code += _rule("fcntl", errno.EPERM, Condition(1, LEASE_OR_NOTIFY, other=True))
    for name, position in OF_OTHERS.items():
        code += _rule(name, errno.EPERM, Condition(position, (0,)))
    return [*code, _Instruction(RETURN, ALLOW)]


def _rule(name: str, error: int, *conditions: Condition) -> list[_Instruction]:
    """BPF instructions that refuse the system call `name` with the error number `error` unless all conditions
    hold; without conditions, always. Empty for a call that this architecture does not have."""
    call = number(name)
    if call is None:
        return []
    body: list[_Instruction] = []
    for argument, values, bits, other in conditions:
        body += [_Instruction(LOAD, ARGUMENTS + 8 * argument), _Instruction(AND, bits)]
        body += [_Instruction(JUMP_EQUAL, value, len(values) - index) for index, value in enumerate(values)]
        body += [_Instruction(JUMP, 1)] if other else []
        body.append(_refuse(error))
    body.append(_Instruction(RETURN, ALLOW) if conditions else _refuse(error))
    return [_Instruction(JUMP_EQUAL, call, 0, len(body)), *body]


def _refuse(error: int) -> _Instruction:
    return _Instruction(RETURN, REFUSE | error)
