"""Shared by all tests: a compile cache of their own, so that nothing outside is touched."""

import os
import random
import secrets
import shutil
import tempfile
import zlib
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("unhurried")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side already

BUILT = ("native", "ptx")  # what takes a minute to build, and changes seldom
KEPT = os.environ.get("KERNELBLASTER_TEST_CACHE")  # a folder in which that is kept from session to session
SLOW = (  # without a compiler too: they start processes or search for long; `--quick` leaves them out
    "bench/test_coverage.py",
    "benchmarks/test_agreement.py",
    "cli/test_breakage.py",
    "cli/test_commands.py",
    "cli/test_demo.py",
    "export/test_files.py",
    "judge/test_eager_model.py",
    "judge/test_precision.py",
    "judge/test_screen_binary.py",
    "judge/test_secret_values.py",
    "judge/test_shared.py",
    "judge/test_timing.py",
    "knowledge/test_learning.py",
    "knowledge/test_speed.py",
    "knowledge/test_sqlite.py::TestSqlite::test_many_processes_lose_nothing",
    "policies/expert/test_fusion.py",
    "policies/expert/test_product.py",
    "policies/expert/test_reduction_candidates.py",
    "policies/expert/test_simplify.py",
    "processes/test_processes.py",
    "report/test_browser.py",
    "store/test_store.py::test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not",
    "search/test_learning.py",
    "tasks/test_core_suite.py",
    "tasks/test_cuda_prepare.py",
    "tasks/test_size_draws.py",
    "tasks/test_users_files.py",
    "test_readiness.py",
)
FIRST = "PYTEST_XDIST_WORKER" not in os.environ  # workers take over the environment of the first process

if FIRST:
    os.environ["KERNELBLASTER_CACHE"] = tempfile.mkdtemp(prefix="kernelblaster-tests-")


def _copied(source: Path, target: Path) -> None:
    for kind in BUILT:
        if (source / kind).is_dir():
            shutil.copytree(source / kind, target / kind, dirs_exist_ok=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="Leave out what compiles anything or takes long.")


def _takes_long(item: pytest.Item) -> bool:
    return "compiler" in getattr(item, "fixturenames", ()) or any(slow in item.nodeid for slow in SLOW)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[item for item in items if _takes_long(item)])
        items[:] = [item for item in items if not _takes_long(item)]


def pytest_sessionstart() -> None:
    if FIRST and KEPT:
        _copied(Path(KEPT), Path(os.environ["KERNELBLASTER_CACHE"]))


def pytest_sessionfinish() -> None:
    if FIRST:
        if KEPT:
            _copied(Path(os.environ["KERNELBLASTER_CACHE"]), Path(KEPT))
        shutil.rmtree(os.environ["KERNELBLASTER_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def compiler() -> str:
    """nvcc's path; tests that need it are skipped where there is none."""
    from kernelblaster.devices.toolchain import toolchain
    from kernelblaster.errors import NoCompiler

    try:
        return toolchain().nvcc
    except NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def drawn_by_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge draws in secret follows from a test's name here: a failure can be repeated."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(secrets, "randbits", rng.getrandbits)
