"""The real GPU keeps the contract; the fixture `device` is that of this folder."""

from kernelblaster.testing.device_contract import DeviceContract


class TestCudaDevice(DeviceContract):
    pass
