"""Settings from environment variables. Nothing else reads the environment, but for what a command hides of it
from code of tasks (variables.py)."""

import math
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.variables import FOR_COMPILERS, TRUSTED

CACHES = {"CUDA_CACHE_PATH": "cuda", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
OF_LIBRARIES = (
    *("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"),
)
LONGEST = 1e6
UNSAFE = "KERNELBLASTER_UNSAFE"
VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
RAY_TOKEN = "RAY_AUTH_TOKEN"
READABLE = "KERNELBLASTER_READABLE"
CONFINED = "KERNELBLASTER_CONFINED"  # set in confined processes: their part of the cache


@dataclass(frozen=True)
class Settings:
    """Paths, tools and limits. `nvcc`, `ncu` and `sanitizer` are paths, None if not found; times are in
    seconds: `call_limit_s` for one call of a candidate, `compile_limit_s` for one compilation,
    `database_patience_s` for a database that cannot be reached.

    Set by environment variables: KERNELBLASTER_CACHE (folder of results that can be recomputed),
    KERNELBLASTER_CACHE_GB (its largest size), KERNELBLASTER_DATA (folder of runs and the knowledge base),
    KERNELBLASTER_NVCC, KERNELBLASTER_CALL_LIMIT, KERNELBLASTER_COMPILE_LIMIT,
    KERNELBLASTER_DATABASE_PATIENCE, KERNELBLASTER_UNSAFE (run host code of candidates and files of tasks even
    where they cannot be confined), KERNELBLASTER_TRUST_TASKS (do not confine files of tasks),
    KERNELBLASTER_READABLE (what they may read beside their own folder, with colons between). `results` is the
    folder of those cached results that code of a task has a part in: the cache itself, unless the process is
    `confined`.
    """

    cache: Path
    results: Path
    cache_bytes: int
    data: Path
    nvcc: str | None
    ncu: str | None
    sanitizer: str | None
    call_limit_s: float
    compile_limit_s: float
    database_patience_s: float
    unsafe: bool
    trusted: bool
    readable: tuple[Path, ...]
    confined: bool


def settings() -> Settings:
    """The settings as the environment is now; nothing is cached. Raises KernelBlasterError for a number that
    is not positive."""
    cache = os.environ.get("KERNELBLASTER_CACHE")
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kernelblaster"
    data = os.environ.get("KERNELBLASTER_DATA")
    share = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "kernelblaster"
    part = os.environ.get(CONFINED)
    return Settings(
        cache=Path(cache) if cache else default,
        results=Path(part) if part else Path(cache) if cache else default,
        cache_bytes=int(1e9 * _number("KERNELBLASTER_CACHE_GB", 5.0)),
        data=Path(data) if data else share,
        nvcc=os.environ.get("KERNELBLASTER_NVCC") or _tool("nvcc") or _wheel_nvcc(),
        ncu=_tool("ncu"),
        sanitizer=_tool("compute-sanitizer"),
        call_limit_s=_number("KERNELBLASTER_CALL_LIMIT", 10.0),
        compile_limit_s=_number("KERNELBLASTER_COMPILE_LIMIT", 120.0),
        database_patience_s=_number("KERNELBLASTER_DATABASE_PATIENCE", 60.0),
        unsafe=bool(os.environ.get(UNSAFE)),
        trusted=bool(os.environ.get(TRUSTED)),
        readable=tuple(Path(path) for path in os.environ.get(READABLE, "").split(":") if path),
        confined=bool(part),
    )


def allow_unsafe() -> None:
    """From now on, run host code of candidates and files of tasks also where the system cannot confine them;
    also in processes that this one starts."""
    os.environ[UNSAFE] = "1"


def trust_tasks() -> None:
    """Switches the confinement of task files off for this process and those that it starts: their code may
    then do what the user may."""
    os.environ[TRUSTED] = "1"


def allow_reading(paths: Sequence[Path]) -> None:
    """Lets code of task files read these files and folders beside their own folder, in this process and those
    that it starts."""
    os.environ[READABLE] = ":".join([os.environ.get(READABLE, ""), *(str(path.absolute()) for path in paths)])


def mark_confined(results: Path, scratch: Path) -> None:
    """Note, for this process and those that it starts, that it is confined: `results` is its part of the
    cache, `scratch` its folder for temporary files. Caches of CUDA and PyTorch move into that part."""
    os.environ[CONFINED] = str(results)
    os.environ["TMPDIR"] = str(scratch)
    for name, folder in CACHES.items():
        os.environ[name] = str(results / folder)


def _number(name: str, otherwise: float) -> float:
    """The number in the environment variable `name`, or `otherwise` if it is unset or empty. Raises
    KernelBlasterError unless it is positive and below LONGEST."""
    given = os.environ.get(name, "")
    try:
        number = float(given) if given else otherwise
    except ValueError:
        number = math.nan
    if not 0 < number < LONGEST:
        raise KernelBlasterError(f"{name}={given}: give a positive number.")
    return number


def visible_gpus() -> tuple[str, ...] | None:
    """The parts of CUDA_VISIBLE_DEVICES, each of which names one GPU; None if it is not set, so that all
    GPUs are visible."""
    given = os.environ.get(VISIBLE_GPUS)
    return None if given is None else tuple(part.strip() for part in given.split(",") if part.strip())


def fleet_token() -> str | None:
    """The token of a Ray cluster that the environment gives, as on Kubernetes; None if it gives none."""
    return os.environ.get(RAY_TOKEN) or None


def use_fleet_token(token: str | None) -> None:
    """From now on, this process and those that it starts identify themselves to Ray by this token; if it is
    None, by none."""
    os.environ["RAY_AUTH_MODE"] = "disabled" if token is None else "token"
    if token is not None:
        os.environ[RAY_TOKEN] = token


def ray_environment() -> dict[str, str]:
    """Environment variables for the processes of a Ray node: this process's own, with settings of Ray's.
    Processes that a worker has started end with it, and a lost node is noticed within about 15 s."""
    return {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_process_group_cleanup_enabled": "true",
        "RAY_health_check_period_ms": "2000",
        "RAY_health_check_timeout_ms": "5000",
        "RAY_health_check_failure_threshold": "3",
    }


def hide_gpus() -> None:
    """Makes this process, and those that it starts, see no GPU, if CUDA is not in use yet."""
    os.environ[VISIBLE_GPUS] = ""


def visible_device() -> str:
    """The GPU that is CUDA device 0 in this process, as a value of CUDA_VISIBLE_DEVICES for a child
    process."""
    return os.environ.get(VISIBLE_GPUS, "0").split(",")[0] or "0"


def secret(name: str) -> str | None:
    """The API key in the environment variable `name`; None if unset or empty. It must never be logged or
    stored."""
    return os.environ.get(name) or None


def compiler_environment() -> dict[str, str]:
    """Environment variables for compiling untrusted sources: only those that locate tools and libraries,
    because a source can read its compiler's environment and print it in an error message."""
    return {name: os.environ[name] for name in FOR_COMPILERS if name in os.environ}


def building_environment(scratch: Path) -> dict[str, str]:
    """Environment variables for compiling this program's own parts: this process's own, with `scratch` as the
    folder for the compiler's temporary files, since the system's may be full or read-only."""
    return {**os.environ, "TMPDIR": str(scratch)}


def tool_environment() -> dict[str, str]:
    """The environment variables of this process that a process gets which replays a candidate's launches on
    the GPU or runs one of NVIDIA's tools: CUDA_VISIBLE_DEVICES, for the one GPU, and LD_LIBRARY_PATH; with a
    PATH of system folders. No others are passed on."""
    return {
        "CUDA_VISIBLE_DEVICES": visible_device(),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
        "PATH": "/usr/bin:/bin",
    }


def library_folders() -> list[Path]:
    """The folders of libraries, headers and the CUDA toolkit that environment variables name."""
    texts = (os.environ.get(name, "") for name in OF_LIBRARIES)
    return [Path(folder) for text in texts for folder in text.split(":") if folder.startswith("/")]


def _tool(name: str) -> str | None:
    """The path of the CUDA tool `name` (nvcc, ncu, ...): from PATH, else from CUDA_HOME, CUDA_PATH or
    /usr/local/cuda; None if not found."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    on_path = shutil.which(name)
    if on_path:
        return on_path
    for home in homes:
        if home and (Path(home) / "bin" / name).is_file():
            return str(Path(home) / "bin" / name)
    return None


def _wheel_nvcc() -> str | None:
    """The path of nvcc in the PyPI package nvidia-cuda-nvcc of this Python; None if it is not installed."""
    for folder in sys.path:
        nvcc = Path(folder) / "nvidia" / "cu13" / "bin" / "nvcc"
        if nvcc.is_file():
            return str(nvcc)
    return None
