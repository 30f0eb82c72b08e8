"""Settings from environment variables. All settings of the package are read here; which variables are hidden
from the code of tasks is decided in variables.py."""

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
    """Paths, tools and limits, from these environment variables:

    - KERNELBLASTER_CACHE, KERNELBLASTER_CACHE_GB: the folder `cache` of results that can be recomputed,
      and its largest size, `cache_bytes`;
    - KERNELBLASTER_DATA: the folder `data` of runs and the knowledge base;
    - KERNELBLASTER_NVCC: the path of `nvcc`. `nvcc`, `ncu` and `sanitizer` (NVIDIA's tools) are searched
      for, and None if not found;
    - KERNELBLASTER_CALL_LIMIT, KERNELBLASTER_COMPILE_LIMIT, KERNELBLASTER_DATABASE_PATIENCE, in seconds:
      `call_limit_s` for one call of a candidate, `compile_limit_s` for one compilation, and
      `database_patience_s` for waiting until a database can be reached again;
    - KERNELBLASTER_UNSAFE (`unsafe`): run task files and the host code of candidates even where they cannot
      be confined; KERNELBLASTER_TRUST_TASKS (`trusted`): do not confine task files;
    - KERNELBLASTER_READABLE (`readable`): what task files may read in addition to their own folder, with
      colons between.

    `confined`: this process is confined; `results` is then the part of the cache in which it may store
    results, otherwise the cache itself."""

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
    """The settings, read from the environment variables anew at each call. Raises KernelBlasterError if a
    variable that should hold a positive number does not."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kernelblaster"
    cache = _path("KERNELBLASTER_CACHE") or default
    share = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "kernelblaster"
    part = os.environ.get(CONFINED)
    nvcc = _path("KERNELBLASTER_NVCC")
    return Settings(
        cache=cache,
        results=Path(part) if part else cache,
        cache_bytes=int(1e9 * _number("KERNELBLASTER_CACHE_GB", 5.0)),
        data=_path("KERNELBLASTER_DATA") or share,
        nvcc=str(nvcc) if nvcc else _tool("nvcc") or _wheel_nvcc(),
        ncu=_tool("ncu"),
        sanitizer=_tool("compute-sanitizer"),
        call_limit_s=_number("KERNELBLASTER_CALL_LIMIT", 10.0),
        compile_limit_s=_number("KERNELBLASTER_COMPILE_LIMIT", 120.0),
        database_patience_s=_number("KERNELBLASTER_DATABASE_PATIENCE", 60.0),
        unsafe=bool(os.environ.get(UNSAFE)),
        trusted=bool(os.environ.get(TRUSTED)),
        readable=tuple(Path(path).absolute() for path in os.environ.get(READABLE, "").split(":") if path),
        confined=bool(part),
    )


def allow_unsafe() -> None:
    """From now on, task files and the host code of candidates are run even where the system cannot confine
    them, in this process and those that it starts."""
    os.environ[UNSAFE] = "1"


def trust_tasks() -> None:
    """Switches off the confinement of task files for this process and those that it starts: the code of task
    files may then do all that the user may."""
    os.environ[TRUSTED] = "1"


def allow_reading(paths: Sequence[Path]) -> None:
    """Lets the code of task files read the files and folders `paths` in addition to their own folder, in this
    process and those that it starts."""
    os.environ[READABLE] = ":".join([os.environ.get(READABLE, ""), *(str(path.absolute()) for path in paths)])


def mark_confined(results: Path, scratch: Path) -> None:
    """Records in the environment, for this process and those that it starts, that it is confined. `results`
    is the part of the cache in which it may store results; CUDA and PyTorch also keep their caches there from
    now on. `scratch` is its folder for temporary files."""
    os.environ[CONFINED] = str(results)
    os.environ["TMPDIR"] = str(scratch)
    for name, folder in CACHES.items():
        os.environ[name] = str(results / folder)


def _path(variable: str) -> Path | None:
    """The path in an environment variable, absolute, because tools run in folders of their own; None if it is
    not set."""
    value = os.environ.get(variable)
    return Path(value).absolute() if value else None


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
    """The GPUs in CUDA_VISIBLE_DEVICES, as they are written there: ("0", "2") for "0,2". Empty if the
    variable is set to nothing. None if it is not set, which means that all GPUs are visible."""
    given = os.environ.get(VISIBLE_GPUS)
    return None if given is None else tuple(part.strip() for part in given.split(",") if part.strip())


def fleet_token() -> str | None:
    """The token by which processes of a Ray cluster identify themselves, from the environment variable
    RAY_AUTH_TOKEN; None if it is not set."""
    return os.environ.get(RAY_TOKEN) or None


def use_fleet_token(token: str | None) -> None:
    """From now on, this process and those that it starts identify themselves to Ray by this token; if it is
    None, by none."""
    os.environ["RAY_AUTH_MODE"] = "disabled" if token is None else "token"
    if token is not None:
        os.environ[RAY_TOKEN] = token


def ray_environment() -> dict[str, str]:
    """Environment variables for the processes of a Ray node: those of this process, and settings for Ray. The
    settings make the processes that a worker started end with the worker, and make Ray notice a lost node
    within about 15 s."""
    return {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_process_group_cleanup_enabled": "true",
        "RAY_health_check_period_ms": "2000",
        "RAY_health_check_timeout_ms": "5000",
        "RAY_health_check_failure_threshold": "3",
    }


def hide_gpus() -> None:
    """Hides all GPUs from this process and those that it starts. Has no effect on this process if it uses
    CUDA already."""
    os.environ[VISIBLE_GPUS] = ""


def visible_device() -> str:
    """Returns a value of CUDA_VISIBLE_DEVICES for a child process that is to see one GPU only, the one that
    is CUDA device 0 here: the first entry of this process's own CUDA_VISIBLE_DEVICES, or "0" if that is not
    set."""
    return os.environ.get(VISIBLE_GPUS, "0").split(",")[0] or "0"


def secret(name: str) -> str | None:
    """The API key in the environment variable `name`; None if unset or empty. The caller must neither log nor
    store it."""
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
    """The environment variables, by name, for a process that replays a candidate's launches on the GPU or
    runs one of NVIDIA's tools: CUDA_VISIBLE_DEVICES for the one GPU, this process's LD_LIBRARY_PATH, and a
    PATH of system folders. Such a process gets no others."""
    return {
        "CUDA_VISIBLE_DEVICES": visible_device(),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
        "PATH": "/usr/bin:/bin",
    }


def library_folders() -> list[Path]:
    """The folders of libraries, headers and the CUDA toolkit that environment variables name
    (LD_LIBRARY_PATH, CPATH, CUDA_HOME, ...)."""
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
