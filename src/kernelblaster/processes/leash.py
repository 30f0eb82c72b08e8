"""python leash.py PIPE MEMORY_BYTES COMMAND...: a command that ends, with all it started, when PIPE does.

A program by itself, which imports nothing of the package: it stands between this program and a compiler,
which starts others that nobody else would end. The pipe's other end closes with the process that holds it,
however that ends. The group that is killed then is this process's own; it must lead one.
"""

import os
import resource
import select
import signal
import sys


def main() -> int:
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
