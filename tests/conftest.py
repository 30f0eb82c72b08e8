"""Shared by all tests: a compile cache of their own, so that nothing outside is touched."""

import gc
import os
import random
import secrets
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from kernelblaster.testing.postgres_server import PostgresServer

hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("unhurried")

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side already
os.environ.pop(
    "PYTHONDONTWRITEBYTECODE", None
)  # tests start hundreds of processes: compiled once, not in each
sys.dont_write_bytecode = False

BUILT = ("native", "ptx")  # what takes a minute to build, and changes seldom
KEPT = os.environ.get("KERNELBLASTER_TEST_CACHE")  # a folder in which that is kept from session to session
SLOW = (  # without a compiler too: they start processes or search for long; `--quick` leaves them out
    "bench/test_coverage.py",
    "bench/test_suite.py::test_a_folder_of_own_files_needs_no_marks",
    "benchmarks/test_agreement.py",
    "benchmarks/test_variants.py",
    "cli/test_breakage.py",
    "cli/test_commands.py",
    "cli/test_demo.py",
    "exploits/test_corpus_is_complete.py::test_tasks_are_fit_and_small_enough_to_emulate",
    "export/test_files.py",
    "fleet/test_ray_fleet.py",
    "judge/test_eager_model.py",
    "judge/test_precision.py",
    "judge/test_screen_binary.py",
    "judge/test_screen_source.py::test_what_the_preprocessor_sees_the_screen_sees",
    "judge/test_secret_values.py",
    "judge/test_timing.py",
    "judge/test_verify.py",
    "knowledge/test_damage.py::test_a_flipped_bit_is_named_or_has_no_effect",
    "knowledge/test_hostile_documents.py::test_a_hostile_document_is_refused_with_its_place[20,000 states]",
    "knowledge/test_learning.py",
    "knowledge/test_speed.py",
    "knowledge/test_sqlite.py::TestSqlite::test_many_processes_lose_nothing",
    "policies/expert/test_flatten.py",
    "policies/expert/test_fusion.py",
    "policies/expert/test_graph.py",
    "policies/expert/test_product.py",
    "policies/expert/test_reduction_candidates.py",
    "policies/expert/test_reductions.py",
    "policies/expert/test_simplify.py",
    "processes/test_processes.py",
    "ptx/test_machine.py",
    "report/test_browser.py",
    "search/test_learning.py",
    "search/test_maic_rl.py::test_both_selections_find_what_pays",
    "store/test_store.py::test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not",
    "tasks/test_core_suite.py",
    "tasks/test_cuda_prepare.py",
    "tasks/test_size_draws.py",
    "tasks/test_torch_programs.py",
    "tasks/test_users_files.py",
    "test_optimize.py::test_an_interrupted_run_ends_as_one_that_was_not",
    "test_optimize.py::test_seeds_decide",
    "test_readiness.py",
    "test_wheel.py::test_what_messages_cite_is_installed",
    "test_words.py",
)
FIRST = "PYTEST_XDIST_WORKER" not in os.environ  # workers take over the environment of the first process

if FIRST:
    os.environ["KERNELBLASTER_CACHE"] = tempfile.mkdtemp(prefix="kernelblaster-tests-")


def _copied(source: Path, target: Path) -> None:
    for kind in BUILT:
        if (source / kind).is_dir():
            for built in (source / kind).glob("*/*"):  # named by what it is made from: never changed
                if built.is_dir() and not (target / kind / built.relative_to(source / kind)).exists():
                    shutil.copytree(built, target / kind / built.relative_to(source / kind))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="Leave out what compiles anything or takes long.")


def _takes_long(item: pytest.Item) -> bool:
    return "compiler" in getattr(item, "fixturenames", ()) or any(slow in item.nodeid for slow in SLOW)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, files of which every test takes long are not even imported."""
    whole = config.getoption("--quick") and any(
        str(collection_path).endswith(f"/tests/{slow}") for slow in SLOW
    )
    return whole or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[item for item in items if _takes_long(item)])
        items[:] = [item for item in items if not _takes_long(item)]


def pytest_collection_finish() -> None:
    """What was imported stays until the end: the collector need not look at its half a million objects again
    and again, which took a tenth of a session's processor time."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


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


@pytest.fixture(scope="session")
def postgres() -> Iterator["PostgresServer"]:
    """A PostgreSQL server; tests that need it are skipped where there is none."""
    from kernelblaster.testing.postgres_server import running_server

    with running_server() as server:
        yield server


@pytest.fixture(autouse=True)
def drawn_by_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the judge draws in secret follows from a test's name here: a failure can be repeated."""
    rng = random.Random(zlib.crc32(request.node.nodeid.encode()))
    monkeypatch.setattr(secrets, "randbits", rng.getrandbits)
