"""The emulated device keeps the contract that a GPU keeps; its times are modelled."""

from collections.abc import Iterator

import pytest

from kernelblaster.devices.device import Device
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.testing.device_contract import DeviceContract


class TestEmulatedDevice(DeviceContract):
    @pytest.fixture
    def device(self, compiler: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
        monkeypatch.setenv("KERNELBLASTER_CALL_LIMIT", "0.5")
        opened = EmulatedDevice()
        yield opened
        opened.close()

    def test_launches_are_counted(self, device: Device) -> None:
        self.prepare(device)
        runner = device.start(self.binary(device, "double"))
        work = runner.call(self.arguments, scratch_poison=-1, accounting=False).work
        runner.close()
        assert work[0].counts is not None and work[0].counts["thread_instructions"] > 1000

    def test_an_arena_is_as_large_as_asked_for(self, device: Device) -> None:
        before, _ = self.prepare(device)
        runner = device.start(self.binary(device, "double"))
        assert device.arena([1 << 34, 1 << 20]).memory.numel() == (1 << 34) + (1 << 20)
        runner.call(self.arguments, scratch_poison=-1, accounting=False)
        runner.close()
        assert float(before[3]) == 6.0 and float(device.arena().memory[:4096].sum()) == 0
        assert device.arena([1 << 20]).memory.numel() == 1 << 20
