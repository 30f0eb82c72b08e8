"""Names of environment variables, and which of them the Python code of tasks may see. Every command imports
this module first, so it imports little itself."""

import os
import re

KEYS = (
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "KERNELBLASTER_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
)
"""The environment variables with keys of model servers."""
FOR_COMPILERS = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH"),
    *("CPLUS_INCLUDE_PATH", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "NVCC_CCBIN"),
    *("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
)
TRUSTED = "KERNELBLASTER_TRUST_TASKS"
PASSED = "KERNELBLASTER_PASS"
KEEPER = "KERNELBLASTER_KEEPER"  # set for the processes of a command with a keeper (keeper.py)
FOR_TASKS = (
    *FOR_COMPILERS,
    *("USER", "LOGNAME", "PWD", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"),
    *("LANGUAGE", "TMPDIR", "VIRTUAL_ENV", "CUDAHOSTCXX", "CXX", "CC"),
)
FOR_TASKS_TOO = (
    *(
        "KERNELBLASTER_",
        "XDG_",
        "LC_",
        "PYTHON",
        "TORCH",
        "PYTORCH_",
        "ATEN_",
        "TRITON_",
        "OMP_",
        "MKL_",
        "KMP_",
    ),
    *("GOMP_", "OPENBLAS_", "BLIS_", "NVPL_", "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NV_", "NVCC_", "LD_"),
)
"""The environment variables that code of tasks may see, and beginnings of names of more."""
SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def task_environment() -> dict[str, str]:
    """Returns the environment variables that code of tasks may see, by name: a fixed list (FOR_TASKS), those
    with certain beginnings (FOR_TASKS_TOO) unless they look like secrets, and those that KERNELBLASTER_PASS
    names, except API keys."""
    passed = {*os.environ.get(PASSED, "").replace(",", " ").split()} - {*KEYS}
    return {
        name: value
        for name, value in os.environ.items()
        if name in passed
        or ((name in FOR_TASKS or name.startswith(FOR_TASKS_TOO)) and not SECRET.search(name))
    }


def keeper_address() -> str:
    """Returns how this process reaches the keeper (the helper process that holds keys), as text of several
    words; empty if there is no keeper. The first word is the number of a file descriptor: that of the file in
    memory with the values that the command hid at its start, -1 if it hid none. The other words are the names
    of the environment variables whose keys the keeper holds."""
    return os.environ.get(KEEPER, "")
