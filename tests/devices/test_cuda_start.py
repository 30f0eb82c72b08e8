"""How a GPU is opened, as far as that can be tried without one."""

from types import SimpleNamespace

import pytest

from kernelblaster.devices import cuda
from kernelblaster.devices.specs import GpuSpec


class Built(Exception):
    """Raised in place of building the launcher."""


@pytest.mark.parametrize(("name", "title"), [("NVIDIA H200", "H200"), ("NVIDIA X1", "NVIDIA X1")])
def test_the_specification_is_known_before_anything_is_started(
    monkeypatch: pytest.MonkeyPatch, name: str, title: str
) -> None:
    properties = SimpleNamespace(
        name=name, uuid="0", major=9, minor=0, multi_processor_count=78, L2_cache_size=50e6
    )
    torch = SimpleNamespace(
        device=lambda *_: "cuda:0",
        zeros=lambda *_, **__: None,
        cuda=SimpleNamespace(get_device_properties=lambda _: properties),
    )
    seen: list[GpuSpec] = []
    specification = cuda.CudaDevice._spec

    def noted(device: cuda.CudaDevice) -> GpuSpec:
        seen.append(specification(device))
        return seen[-1]

    def launcher(architecture: str) -> None:
        raise Built(architecture)

    monkeypatch.setattr(cuda, "why_no_gpu", lambda: None)
    monkeypatch.setattr(cuda, "torch", torch)
    monkeypatch.setattr(cuda, "lock_gpu", lambda *_: None)
    monkeypatch.setattr(cuda.CudaDevice, "_spec", noted)
    monkeypatch.setattr(cuda, "launcher_executable", launcher)
    with pytest.raises(Built, match="sm_90a"):
        cuda.CudaDevice()
    assert title in seen[0].title
    assert seen[0].multiprocessors == 78
