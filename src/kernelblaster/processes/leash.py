"""python leash.py PIPE MEMORY_BYTES COMMAND...: run a command; kill it and everything it started when PIPE
closes.

A standalone program that imports nothing of the package. KernelBlaster starts compilers with it, because
these start further processes. PIPE is the number of an open file descriptor, one end of a pipe;
KernelBlaster's process holds the other end. So the pipe closes when that process ends, however that happens.
Then this program kills its own process group, which it must lead.
"""

import os
import resource
import select
import signal
import sys


def main() -> int:
    """Runs the command on the command line, which is described at the top of this file. Returns the command's
    exit code; a negative one is the number of the signal that ended it. MEMORY_BYTES limits the address space
    of the command (0: no limit)."""
    pipe, memory_bytes, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if memory_bytes:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        allowed = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
    os.set_inheritable(pipe, False)
    child = os.posix_spawnp(command[0], command, os.environ)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([pipe, ended], [], [])
    if ended not in ready:
        os.killpg(0, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
