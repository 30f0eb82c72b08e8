"""Gives up, for good, the Linux capabilities (single rights of root) that the code of task files has no use
for."""

import ctypes
import os

KILL, SETGID, SETUID, SETPCAP, DAC_OVERRIDE, IPC_LOCK, SYS_CHROOT = 5, 6, 7, 8, 1, 14, 18
KEPT = (
    DAC_OVERRIDE,
    KILL,
    SETGID,
    SETUID,
    SETPCAP,
    IPC_LOCK,
    SYS_CHROOT,
)  # the recorder changes user and root
FOR_TOOLS = (21, 38)  # SYS_ADMIN and PERFMON, without which NCU may not count
LAST = 63
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    ]


def give_up(*, tools: bool) -> None:
    """Gives up Linux capabilities (single rights of root) in this process and in whatever it starts. Seven
    are kept (KEPT), with which the sandbox of candidates is set up. With `tools`, those that NVIDIA's
    profiling tools need are kept, too. Does nothing if the process has no capabilities. Raises OSError if the
    kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = {*KEPT, *(FOR_TOOLS if tools else ())}
    header, sets = _Header(VERSION_3, 0), (_Sets * 2)()
    _check(libc.capget(ctypes.byref(header), sets))
    if not any(half.permitted for half in sets):
        return
    for one in range(LAST + 1):
        if one not in kept and libc.prctl(PR_CAPBSET_READ, one, 0, 0, 0) == 1:
            libc.prctl(
                PR_CAPBSET_DROP, one, 0, 0, 0
            )  # refused without SETPCAP; then there is little to give up
    for index, half in enumerate(sets):
        bits = sum(1 << one - 32 * index for one in kept if one // 32 == index)
        half.effective &= bits
        half.permitted &= bits
        half.inheritable = 0
    _check(libc.capset(ctypes.byref(header), sets))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
