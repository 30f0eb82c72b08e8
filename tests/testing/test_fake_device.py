"""The fake device keeps the contract that real devices keep."""

from pathlib import Path

import pytest

from kernelblaster.devices.device import CandidateDied, CandidateHung, Device
from kernelblaster.testing.device_contract import SIGNATURE, DeviceContract
from kernelblaster.testing.fake_device import Body, FakeCall, FakeDevice


def double(call: FakeCall) -> None:
    call["out"].copy_(2 * call["x"])


def twice(call: FakeCall) -> None:
    double(call)
    call.launches = 2


def scratch(call: FakeCall) -> None:
    double(call)
    call.live_bytes = 100


def dies(call: FakeCall) -> None:
    raise CandidateDied("exit")


def hangs(call: FakeCall) -> None:
    raise CandidateHung(1.0)


BODIES: dict[str, Body] = {
    "double": double,
    "twice": twice,
    "scratch": scratch,
    "dies": dies,
    "hangs": hangs,
}


class TestFakeDevice(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return FakeDevice(SIGNATURE)

    def binary(self, device: Device, behaviour: str) -> Path:
        assert isinstance(device, FakeDevice)
        return device.register(BODIES[behaviour])
