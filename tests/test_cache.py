"""Results in the cache are what was written, stay within a limit, and leave nothing behind."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelblaster import cache
from kernelblaster.cache.eviction import evict
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.records import Candidate
from kernelblaster.scratch import PREFIX, Scratch, sweep
from kernelblaster.tasks.catalog import load_task
from tests.judge.test_compile import GOOD

KILLED = """
import os, signal, sys
from kernelblaster import cache
with cache.filling(cache.entry("kind", "ab12")) as folder:
    (folder / "a").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(digest: str, text: str = "text", kind: str = "kind") -> Path:
    target = cache.entry(kind, digest)
    with cache.filling(target) as folder:
        (folder / "a").write_text(text)
        (folder / "b").write_text(text * 2)
    return target


def test_every_damage_is_found_and_mended() -> None:
    rng = random.Random(0)
    for number in range(60):
        target = fill("ab12")
        assert cache.is_stored(target)
        file = rng.choice(sorted(target.iterdir()))
        data = bytearray(file.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        assert not cache.is_stored(target) and not target.exists(), number


def test_files_that_are_missing_added_or_another_results_are_found() -> None:
    other = fill("cd34", "other")
    target = fill("ab12")
    (target / "b").unlink()
    assert not cache.is_stored(target)
    (fill("ab12") / "c").write_text("more")
    assert not cache.is_stored(target)
    (other / "a").rename(fill("ab12") / "a")
    assert not cache.is_stored(target)
    fill("cd34", "again") if not cache.is_stored(other) else None
    other.rename(target)
    assert not cache.is_stored(target)


def test_the_second_writer_finds_the_first_ones_result() -> None:
    target = cache.entry("kind", "ab12")
    with cache.filling(target) as folder:
        (folder / "a").write_text("slow")
        fill("ab12", "quick")
    assert cache.is_stored(target) and (target / "a").read_text() == "quick"


def test_what_was_not_used_for_longest_goes_first(own: Path) -> None:
    targets = [fill(f"{number:02}ab", "x" * 1000) for number in range(10)]
    kept = fill("99ab", "x" * 1000, kind="native")
    for age, target in enumerate([kept, *targets]):
        os.utime(target, (time.time() - 10**6 + age,) * 2)
    assert cache.is_stored(targets[0])  # now it is the one that was used last
    assert evict(own, limit=10**6) == 0
    assert evict(own, limit=17_000) > 0
    left = [number for number, target in enumerate(targets) if target.exists()]
    assert left == [0, *range(left[1], 10)] and len(left) < 8 and kept.exists()
    assert evict(own, limit=1, in_use_s=10**7) == 0  # all of them may be in use


def test_what_cannot_be_removed_does_not_count_as_removed(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        target = cache.entry("kind", f"{number:02d}ab")
        with cache.filling(target) as folder:
            (folder / "a").write_text("x" * 1000)
        os.utime(target, (time.time() - 10**6 + number,) * 2)

    def held(path: Path, target: Path) -> Path:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "rename", held)
    assert evict(own, limit=1) == 0


def test_what_a_killed_process_left_is_swept_and_what_lives_is_not(own: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.name[:9] for path in (own / "kind").glob(".scratch*")] == [".scratch-"]
    with cache.filling(cache.entry("kind", "cd34")) as folder:
        cache.sweep_cache()
        assert folder.is_dir()
        (folder / "a").write_text("whole")
    assert not list(own.rglob(".scratch*")) and cache.is_stored(cache.entry("kind", "cd34"))


def test_only_what_is_left_over_is_swept(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}left").mkdir()
    (tmp_path / "kernelblaster-other").mkdir()
    with Scratch(tmp_path) as living:
        assert sweep(tmp_path) == 1
        assert living.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["kernelblaster-other"]


def test_a_damaged_object_is_compiled_again_and_not_blamed_on_the_candidate(compiler: str) -> None:
    task = load_task("core/level1/softmax")
    candidate = Candidate(source=GOOD)
    first = compile_candidate(task, candidate, "sm_90a")
    assert isinstance(first, Binary)
    first.path.write_bytes(first.path.read_bytes()[:1000])
    again = compile_candidate(task, candidate, "sm_90a")
    assert isinstance(again, Binary) and not again.compilation.cached
    assert again.path.stat().st_size > 1000


def test_a_file_is_looked_at_as_a_whole_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "cache"))
    made, file = [], tmp_path / "file"

    def find() -> Path:
        file.touch()
        made.append(file)
        return file

    assert [cache.find_once("native", ("player",), find) for _ in range(3)] == [file] * 3 and len(made) == 1
    file.unlink()
    assert cache.find_once("native", ("player",), find) == file and len(made) == 2
    monkeypatch.setenv("KERNELBLASTER_CACHE", str(tmp_path / "another"))
    cache.find_once("native", ("player",), find)
    assert len(made) == 3
