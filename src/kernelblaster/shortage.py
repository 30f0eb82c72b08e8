"""Recognizes errors which mean that this machine or process is short of something: disk, memory, open files,
permissions."""

import errno

WORDS = {
    errno.ENOSPC: "the disk is full. Free some space, and go on.",
    errno.EDQUOT: "the disk quota is used up. Free some space, and go on.",
    errno.EROFS: "the file system is read-only. Name a folder that can be written.",
    errno.EACCES: "permission is denied. Change its permissions, or name another.",
    errno.EPERM: "permission is denied. Change its permissions, or name another.",
    errno.EMFILE: "too many files are open. Allow this process more (ulimit -n).",
    errno.ENFILE: "too many files are open on this machine.",
    errno.ENOMEM: "there is not enough memory. Allow this process more (ulimit -v), or use fewer --workers.",
    errno.EAGAIN: "too many processes. Allow this user more (ulimit -u), or use fewer --workers.",
}
NO_SCRATCH = "no temporary folder can be written. Name one that can (TMPDIR)."
_MEMORY = ("cannot allocate memory", "not enough memory", "failed to map segment", "bad_alloc")


def shortage(error: BaseException) -> str | None:
    """Returns one sentence that says what this machine is short of (disk, memory, files or permissions) and
    what to do, if that is what `error` means. Returns None for any other error."""
    if isinstance(error, MemoryError):
        return WORDS[errno.ENOMEM]
    if isinstance(error, FileNotFoundError) and "No usable temporary directory" in str(error):
        return NO_SCRATCH
    if isinstance(error, OSError) and error.errno in WORDS:
        words = WORDS[error.errno]
        return f"{error.filename}: {words}" if error.filename else words
    if isinstance(error, RuntimeError | ImportError) and any(w in str(error).lower() for w in _MEMORY):
        return WORDS[errno.ENOMEM]
    return None
