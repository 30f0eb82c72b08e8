"""Compiles candidates to shared objects with nvcc, without PyTorch's headers. A candidate's source is
screened before, the shared object afterwards. Results are cached by source, flags and compiler version."""

import errno
import hashlib
import json
import re
import resource
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernelblaster import cache
from kernelblaster.devices.device_code import CUBIN, OBJECT, PTX
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import Shortage
from kernelblaster.judge.screen_binary import screen_binary
from kernelblaster.judge.screen_host import host_text, screen_host
from kernelblaster.judge.screen_source import ScreenFinding, screen_source
from kernelblaster.processes.cores import usable_cores
from kernelblaster.processes.leashed import run_leashed
from kernelblaster.records import (
    Candidate,
    Compilation,
    CompileFailed,
    Rejected,
    Resources,
    Signature,
    Task,
    TimedOut,
)
from kernelblaster.settings import compiler_environment, settings
from kernelblaster.tasks.header import judge_header, left_out

COMPILER_MEMORY_BYTES = 24 << 30
LOG_CHARACTERS = 4000
SOURCE = "candidate.cu"
REPORT = "compilation.json"
HOST = "host.cpp"  # the part of the source that went to the host compiler
KEPT = ("header.h", SOURCE, HOST, PTX, CUBIN, OBJECT)
CACHED = "candidate"  # kind of cache entries
FORMAT = 5  # of a cache entry: what its folder holds


@dataclass(frozen=True)
class Binary:
    """A compiled and screened candidate. `path` is its shared object in the cache; PTX, cubin and source lie
    in the same folder. `compilation` says how it was compiled, with ptxas' report on each kernel (registers,
    shared memory)."""

    path: Path
    compilation: Compilation


Failure = CompileFailed | Rejected | TimedOut


class _NotBuiltError(Exception):
    """Carries the outcome of a failed build out of the block that fills the cache, so that the failure is not
    cached."""

    def __init__(self, outcome: CompileFailed | TimedOut) -> None:
        self.outcome = outcome


def compile_candidate(task: Task, candidate: Candidate, architecture: str) -> Binary | Failure:
    """Screens the source of a candidate for `task`, compiles it for `architecture` (like sm_90a), and screens
    the result. Returns the compiled candidate; if it fails, the outcome that says why (CompileFailed,
    Rejected, TimedOut). Raises OSError or Shortage if disk or memory runs out."""
    findings = screen_source(candidate.source)
    if findings:
        return _rejected(findings)
    built = _build(task.signature, task.name, candidate, architecture)
    if not isinstance(built, Binary):
        return built
    findings = _screened(built.path, built.path.stat().st_mtime_ns)
    return _rejected(findings) if findings else built


def compiler_threads() -> int:
    """How many candidates are compiled at once: the number of cores less one, which is left to the process
    that times; at least 1."""
    return max(1, usable_cores() - 1)


@lru_cache(maxsize=256)
def _screened(path: Path, changed_ns: int) -> list[ScreenFinding]:
    """What the screens find in the compiled candidate at `path`; empty if nothing. `changed_ns`, when its
    shared object was written, is only part of the memory key: the same candidate is screened once."""
    return screen_host((path.parent / HOST).read_text()) + screen_binary(path)


def compilers() -> ThreadPoolExecutor:
    """A new thread pool for compiling candidates, with `compiler_threads()` threads. The caller shuts it
    down."""
    return ThreadPoolExecutor(max_workers=compiler_threads())


def flags(architecture: str, defines: tuple[tuple[str, int], ...]) -> list[str]:
    """nvcc's command-line options to compile a candidate for `architecture` (like sm_90a) to a shared object;
    `defines` are (name, value) pairs for -D."""
    number = architecture.removeprefix("sm_")
    result = ["-O3", "-std=c++17", "-lineinfo", "-shared", "-cudart", "none", "-Xptxas", "-v"]
    result += ["-DCCCL_DISABLE_NVTX", "-D__NV_LEGACY_LAUNCH", "-Xcompiler", "-fPIC,-D__NV_LEGACY_LAUNCH"]
    result += [f"-gencode=arch=compute_{number},code=sm_{number}"]
    return result + [f"-D{name}={value}" for name, value in defines]


def _build(signature: Signature, title: str, candidate: Candidate, architecture: str) -> Binary | Failure:
    """Compile a candidate, or take it from the cache; CompileFailed or TimedOut if that fails. `title` is the
    task's name, for the generated header that every candidate includes. `signature` determines that header;
    `architecture` is like sm_90a."""
    tools = toolchain()
    header = judge_header(signature, title, candidate.source)
    options = flags(architecture, candidate.defines)
    options += [f"-D{name}" for name in left_out(candidate.source)]
    key = json.dumps([FORMAT, candidate.source, header, options, tools.version])
    target = cache.entry(CACHED, hashlib.sha256(key.encode()).hexdigest()[:32])
    if cache.is_stored(target):
        compilation = Compilation.model_validate_json((target / REPORT).read_text())
        cached = compilation.model_copy(update={"cached": True})
        return Binary(target / OBJECT, cached)
    try:
        with cache.filling(target) as folder:
            (folder / "header.h").write_text(header)
            (folder / SOURCE).write_text(candidate.source)
            command = [tools.nvcc, *options, "--keep", "-include", "header.h", SOURCE]
            command += ["-o", OBJECT]
            start = time.perf_counter()
            limit_s = settings().compile_limit_s
            code, log = run_leashed(
                command,
                folder=folder,
                environment={**compiler_environment(), "TMPDIR": str(folder)},
                limit_s=limit_s,
                memory_bytes=COMPILER_MEMORY_BYTES,
            )
            if code is None:
                raise _NotBuiltError(TimedOut(stage="compile", limit_s=limit_s))
            if code != 0:
                _raise_if_short(log, folder)
                raise _NotBuiltError(CompileFailed(reason=_first_error(log), log=log[:LOG_CHARACTERS]))
            for file in folder.glob("*.cubin"):
                file.rename(folder / CUBIN)
            front_end = (folder / "candidate.cudafe1.cpp").read_text(errors="replace")
            (folder / HOST).write_text(host_text(front_end, SOURCE))
            for file in folder.iterdir():
                if file.name not in KEPT:
                    file.unlink()
            with suppress(PermissionError):  # a confined process may not, and need not
                (folder / OBJECT).chmod(0o755)  # the recorder's child is another user
            compilation = Compilation(
                seconds=time.perf_counter() - start,
                cached=False,
                architecture=architecture,
                compiler=f"nvcc {tools.version}",
                resources=tuple(parse_resources(log)),
            )
            (folder / REPORT).write_text(compilation.model_dump_json())
    except _NotBuiltError as error:
        return error.outcome
    return Binary(target / OBJECT, compilation)


def _raise_if_short(log: str, folder: Path) -> None:
    """Raise OSError or Shortage if the compiler failed because the disk is full or its memory limit is too
    low; such a failure says nothing about the candidate. `log` is its output, `folder` where it wrote."""
    if "No space left" in log or shutil.disk_usage(folder).free < 1 << 20:
        raise OSError(errno.ENOSPC, "No space left on device")
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limited = most != resource.RLIM_INFINITY and most < COMPILER_MEMORY_BYTES
    if limited and re.search(r"out of memory|cannot allocate memory|bad_alloc|died due to signal", log, re.I):
        raise Shortage(
            f"the compiler may use {most} bytes of memory, which is not enough: allow it more (ulimit -v)."
        )


def _first_error(log: str) -> str:
    """The line in nvcc's output (`log`) that reports the first error; its last line if none does."""
    for line in log.splitlines():
        if re.search(r"\berror\b", line) and "ptxas info" not in line:
            return line.strip()[:400]
    return (log.strip().splitlines() or ["nvcc failed without a message"])[-1][:400]


def _rejected(findings: list[ScreenFinding]) -> Rejected:
    """The outcome of a candidate with these findings of the screens (at least one); the first one gives the
    reason, up to ten the evidence."""
    details = [f"line {f.line}: {f.detail}" if f.line else f.detail for f in findings]
    return Rejected(reason=findings[0].rule, evidence="\n".join(details[:10]))


def parse_resources(log: str) -> list[Resources]:
    """Returns what ptxas reports on each kernel (registers, shared memory, stack, spills), in the order in
    which `log` has the kernels. `log` is nvcc's output with `-Xptxas -v`."""
    resources = []
    pattern = re.compile(
        r"Compiling entry function '(?P<name>[^']+)'.*?"
        r"(?P<stack>\d+) bytes stack frame, (?P<store>\d+) bytes spill stores, "
        r"(?P<load>\d+) bytes spill loads\s*\n.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
        re.DOTALL,
    )
    for match in pattern.finditer(log):
        rest = match["rest"]
        resources.append(
            Resources(
                kernel=match["name"],
                registers=int(match["registers"]),
                shared_bytes=_amount(rest, r"(\d+) bytes smem"),
                constant_bytes=_amount(rest, r"(\d+) bytes cmem\[0\]"),
                stack_bytes=int(match["stack"]),
                spill_store_bytes=int(match["store"]),
                spill_load_bytes=int(match["load"]),
                barriers=_amount(rest, r"used (\d+) barriers"),
            )
        )
    return resources


def _amount(text: str, pattern: str) -> int:
    """The number that the pattern's first group matches; 0 if the text has none."""
    match = re.search(pattern, text)
    return int(match[1]) if match else 0
