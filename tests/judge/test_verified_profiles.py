"""Profiles of candidates that are known to be right: what is verified first, and what gets an outcome."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernelblaster.judge.compile import Binary
from kernelblaster.judge.under_test import Checked
from kernelblaster.judge.verified_profiles import VerifiedProfiles
from kernelblaster.records import Candidate, CompileFailed, Incorrect, Profile, Task, Verification
from kernelblaster.records.evaluation import Compilation


class Profiling:
    """A clock that makes empty profiles."""

    def profiles(self, wanted: Any, *, depth: str) -> list[list[Profile]]:
        one = Profile(device="fake", tier="activity", workload="primary", kernels=())
        return [[one for _ in binaries] for _, binaries in wanted]


def compiled(source: str) -> tuple[Candidate, Binary]:
    report = Compilation(seconds=0, cached=False, architecture="sm_90a", compiler="none", resources=())
    return Candidate(source=source, origin="a technique"), Binary(Path(source), report)


def test_code_that_was_found_correct_is_not_verified_again_whoever_wrote_it(task: Task) -> None:
    verified: list[str] = []

    def check(prepared: Any, binary: Binary) -> Checked:
        verified.append(binary.path.name)
        return Checked(Verification(cases=(), calls=1, deterministic=True, seconds=0))

    profiles = VerifiedProfiles(Profiling(), check)  # type: ignore[arg-type]
    profiles.remember(task, Candidate(source="a", origin="another technique"))
    prepared: Any = SimpleNamespace(task=task)
    found = profiles.profile([(prepared, [compiled("a"), compiled("b")])], "quick")
    assert [type(one) for one in found[0]] == [Profile, Profile] and verified == ["b"]


def test_a_wrong_candidate_gets_its_outcome_and_no_profile(task: Task) -> None:
    wrong = Incorrect(reason="wrong values", evidence="")
    failed = CompileFailed(reason="no", log="")
    profiles = VerifiedProfiles(Profiling(), lambda prepared, binary: Checked(wrong))  # type: ignore[arg-type]
    profiles.remember(task, Candidate(source="b"))
    prepared: Any = SimpleNamespace(task=task)
    broken = Candidate(source="c"), failed
    [[first, second, third]] = profiles.profile([(prepared, [compiled("a"), compiled("b"), broken])], "quick")
    assert first == wrong and isinstance(second, Profile) and third == failed
