"""Files that hang, print, need what is not here, or download: a sentence each, and nothing is left behind."""

import logging
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.tasks import module_file
from kernelblaster.tasks.catalog import load_source
from kernelblaster.tasks.quiet import printed_characters, quiet

TASK = """import torch, time, warnings
{before}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
        return x * 2
def get_inputs():
    return [torch.rand(64, 128)]
def get_init_inputs():
    return []
"""


def source(before: str = "", init: str = "pass", forward: str = "pass") -> str:
    return TASK.format(before=before, init=init, forward=forward)


def refusal(text: str) -> str:
    with pytest.raises(BadTask) as caught:
        load_source("t", text, "t.py")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_constructor_that_hangs_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_file, "IMPORT_LIMIT_S", 0.5)
    start = time.monotonic()
    assert "t.py:6: Model could not be built: TookTooLong: took longer" in refusal(
        source(init="time.sleep(99)")
    )
    assert time.monotonic() - start < 5


def test_what_a_file_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    loud = "print('x' * (1 << 20)); warnings.warn('look here'); __import__('sys').stderr.write('y' * 99)"
    task = load_source("t", source(before=loud, init=loud, forward=loud), "t.py")
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err == ""
    assert task.notes == ("what the file prints, megabytes of it, is not shown",)


def test_a_package_that_is_missing_is_named() -> None:
    words = refusal(source(before="import nothing_of_that_name.part"))
    assert words.startswith("t.py:2: it needs the package nothing_of_that_name, which is not installed here;")


@pytest.mark.parametrize("place", ["before", "init"])
def test_weights_are_not_downloaded(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    url = "https://weights.example.org/resnet50-0676ba61.pth"
    words = refusal(source(**{place: f"torch.hub.load_state_dict_from_url('{url}')"}))
    assert "it opens a connection to weights.example.org; a task must not depend on the network" in words
    assert not list(tmp_path.iterdir()) and capfd.readouterr() == ("", "")


def test_other_threads_are_heard_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    before = printed_characters()
    with quiet():
        print("muted")
        warnings.warn("muted", stacklevel=1)
        logging.getLogger("torch.something").warning("muted")
        other = threading.Thread(target=lambda: print("heard"))
        other.start()
        other.join()
    print("after", file=sys.stderr)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("heard\n", "after\n")
    assert printed_characters() - before == len("muted\n")


def test_sizes_that_are_refused_make_no_noise(capfd: pytest.CaptureFixture[str]) -> None:
    blocks = "return x.view(-1, 8, 16).mean(1) @ torch.ones(16, 4)"
    load_source("t", source(forward=blocks), "t.py")
    assert capfd.readouterr() == ("", "")
