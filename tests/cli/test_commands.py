"""The commands as a new user would try them, bad input of every kind included. Most are called in this
process: a new one takes seconds to import torch."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelblaster.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "softmax.cu")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kernelblaster", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        check=False,
    )


Called = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Called:
    """As `run`, in this process."""

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", ["kernelblaster", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(str(ended.value.code)), said.out, said.err)

    return call


def no_gpu() -> bool:
    return not Path("/dev/nvidiactl").exists()


def test_doctor_speaks_json() -> None:
    done = run("doctor", "--json")
    findings = {f["subject"]: f for f in json.loads(done.stdout)}
    assert {"compiler", "PyTorch", "GPU", "device", "profiler", "cache"} <= set(findings)
    missing = [f for f in findings.values() if f["needed"] and f["state"] == "missing"]
    assert done.returncode == (1 if missing else 0)
    assert findings["device"]["detail"].startswith("emulated" if no_gpu() else "cuda")


def test_list_show_and_check(called: Called) -> None:
    listed = json.loads(run("tasks", "list", "core/level3", "--json").stdout)
    assert len(listed) >= 10
    shown = called("tasks", "show", "core/level1/softmax")
    assert "const float* x," in shown.stdout and "805.3 MB" in shown.stdout
    header = called("tasks", "show", "core/level1/softmax", "--header").stdout
    assert header.startswith("// core/level1/softmax") and header.rstrip().endswith(");")
    checked = called("tasks", "check", "core/level1/softmax", "--json")
    assert checked.returncode == 0 and json.loads(checked.stdout)[0]["fit"]


def test_an_unfit_task_has_its_own_exit_code(called: Called, tmp_path: Path) -> None:
    path = tmp_path / "random.py"
    path.write_text(
        "import torch, torch.nn as nn\nn = 64\nclass Model(nn.Module):\n"
        "    def forward(self, x):\n        return x + torch.rand_like(x)\n"
        "def get_inputs():\n    return [torch.rand(n)]\ndef get_init_inputs():\n    return []\n"
    )
    done = called("tasks", "check", str(path))
    assert done.returncode == 1 and "random" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "core/level1/softmax", "nowhere.cu"], "there is no such file"),
        (["evaluate", "core/level1/nothing", EXAMPLE], "no such task"),
        (["evaluate", "core/level1", EXAMPLE], "stands for"),
        (["evaluate", "README.md", EXAMPLE], "a task is a .py or a .cu file"),
        (["evaluate", "core/level1/softmax", "README.md"], "does not define launch_gpu_implementation"),
        (["profile", "core/level1/softmax", "nowhere.cu"], "there is no such file"),
        (["evaluate", "core/level1/softmax", EXAMPLE, "--gpu", "voodoo"], "is not one of h200, h100"),
        (
            ["evaluate", "core/level1/softmax", EXAMPLE, "--device", "cuda", "--gpu", "h100"],
            "says what the emulated device stands for",
        ),
        (
            ["evaluate", "core/level1/softmax", EXAMPLE, "--device", "emulated", "--baseline", "compile"],
            "only eager PyTorch is modelled",
        ),
        (["tasks", "show", "nowhere.py"], "no such task"),
        (["tasks", "list", "kernelbench:/nowhere"], "no KernelBench problem"),
    ],
)
def test_bad_input_gets_a_sentence(called: Called, words: list[str], message: str) -> None:
    done = called(*words)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_a_gpu_that_is_not_there_is_said(compiler: str, called: Called) -> None:
    if not no_gpu():
        pytest.skip("there is a GPU here")
    done = called("evaluate", "core/level1/softmax", EXAMPLE, "--device", "cuda")
    text = " ".join(done.stderr.split())
    assert done.returncode == 2 and "no usable GPU" in text and "--device emulated" in text


def test_the_emulated_device_gives_a_verdict_that_says_modelled(compiler: str, called: Called) -> None:
    done = run("evaluate", "core/level1/softmax", EXAMPLE, "--device", "emulated", "--profile")
    assert done.returncode in (0, 1), done.stderr
    speedup, time = done.stdout.splitlines()[1:3]
    assert "x modelled" in speedup and time.count("us modelled") == 2
    assert "counted    at the small workload; no findings" in done.stdout
    assert "profile (modelled, primary workload)" in done.stdout
    words = ("--gpu", "h100", "--filter", "emulated", "--json")
    found = json.loads(called("evaluate", "core/level1/softmax", EXAMPLE, *words).stdout)
    assert found["timing"]["modelled"] and found["outcome"]["speedup"]["confidence"] is None
    assert found["counters"]["tier"] == "emulated" and "H100" in found["device"]


def test_emulate_shows_counters_and_findings(compiler: str, called: Called, tmp_path: Path) -> None:
    shown = json.loads(called("emulate", "core/level1/softmax", EXAMPLE, "--json").stdout)
    names = {metric["name"] for metric in shown["counters"]["kernels"][0]["metrics"]}
    assert {"Warp Instructions", "Load Sectors Per Request", "Shared Bank Conflicts"} <= names
    beside = tmp_path / "beside.cu"
    beside.write_text(Path(EXAMPLE).read_text().replace("i < columns", "i <= columns"))
    done = called("emulate", "core/level1/softmax", str(beside))
    assert done.returncode == 6 and "out-of-bounds" in done.stdout and "line" in done.stdout


def test_the_default_device(compiler: str) -> None:
    from kernelblaster.api import open_device

    device = open_device()
    assert device.modelled == no_gpu()
    device.close()


def test_without_a_compiler_the_message_says_how_to_get_one() -> None:
    if not no_gpu():
        pytest.skip("there is a GPU here")
    done = run("evaluate", "core/level1/softmax", EXAMPLE, KERNELBLASTER_NVCC="/nonexistent/nvcc")
    assert done.returncode == 2 and "kernelblaster[nvcc]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_that_cannot_be_written_is_said(compiler: str) -> None:
    if not no_gpu():
        pytest.skip("there is a GPU here")
    done = run("evaluate", "core/level1/softmax", EXAMPLE, KERNELBLASTER_CACHE="/proc/nowhere")
    assert done.returncode == 2 and "KERNELBLASTER_CACHE" in done.stderr
    assert "Traceback" not in done.stderr
