"""Describes the present state of a fleet: its machines, their devices, what these work on and how healthy
they are."""

import time
from dataclasses import dataclass

from kernelblaster.devices.nvml import all_readings
from kernelblaster.fleet.board import DeviceEntry
from kernelblaster.fleet.health import Health, judge_reading


@dataclass(frozen=True)
class GpuStatus:
    """A GPU of a machine by its name, with its health. If the fleet itself is using the GPU, its process is
    among those that the health reports."""

    name: str
    health: Health


@dataclass(frozen=True)
class NodeStatus:
    """A node (machine) of a fleet: its `address`, whether it is `alive`, its number of `cores`, and how many
    PTX machines (emulators) it offers (`machines`). `gpus` is None if it could not be asked for them.
    `devices` are those that commands use now."""

    address: str
    alive: bool
    cores: int
    machines: int
    gpus: tuple[GpuStatus, ...] | None
    devices: tuple[DeviceEntry, ...] = ()


def gpus_of_machine() -> tuple[GpuStatus, ...]:
    """The GPUs of this machine, each with its name and its health: clock, temperature, processes on it."""
    return tuple(GpuStatus(one.name, judge_reading(one)) for one in all_readings())


def device_line(entry: DeviceEntry, now: float | None = None) -> str:
    """Returns one line for people on a device in use (`entry`): its name, what it does, for how many seconds,
    and for whom. `now` is in seconds since 1970, the present time if it is None."""
    seconds = (time.time() if now is None else now) - entry.since
    doing = f"refused: {entry.refused}" if entry.refused else entry.about or "idle"
    return f"{entry.name}: {doing}, for {max(0.0, seconds):.0f} s, by {entry.user}"
