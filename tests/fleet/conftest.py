"""A Ray cluster with two simulated nodes on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.settings import ray_environment, use_fleet_token

TOKEN = "of-the-tests-" + "0123456789abcdef" * 2
STORE_BYTES = 80 << 20  # about the least that Ray knows


class SimulatedCluster:
    """A head node with one core, and further ones; each node has a cache of its own, and `ptx_machine`s."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self._folder = folder
        self._nodes = 0
        changed = {k: v for k, v in ray_environment().items() if os.environ.get(k) != v}
        os.environ.update(changed)
        self.cluster = Cluster()
        self.add_node(include_dashboard=False)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add_node(self, machines: int = 1, **more: Any) -> Any:
        self._nodes += 1
        return self.cluster.add_node(
            num_cpus=1,
            object_store_memory=STORE_BYTES,
            resources={"ptx_machine": machines},
            env_vars={"KERNELBLASTER_CACHE": str(self._cache(self._nodes)), "CUDA_VISIBLE_DEVICES": "0,1"},
            **more,
        )

    def _cache(self, number: int) -> Path:
        """The cache of a node, with what takes a minute to build from that of the tests."""
        folder = self._folder / f"cache-{number}"
        folder.mkdir()
        for built in ("native", "ptx"):
            shared = Path(os.environ["KERNELBLASTER_CACHE"]) / built
            shared.mkdir(exist_ok=True)
            (folder / built).symlink_to(shared)
        return folder


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    use_fleet_token(TOKEN)  # before Ray is imported
    made = SimulatedCluster(tmp_path_factory.mktemp("cluster"))
    made.add_node()
    yield made
    made.cluster.shutdown()
