"""Whether a device is fit to time on: not slowed down, not too hot, not used by others."""

from kernelblaster.devices import nvml
from kernelblaster.devices.nvml import GpuReading
from kernelblaster.fleet.requests import OwnedKind
from kernelblaster.records.record import Record

HOT_C = 90.0  # degrees Celsius: GPUs slow down from about here on


class Health(Record):
    """The health of a device at one moment. `problems` say in words why it must not be used for timing; empty
    if it may be. The other fields are for a GPU: `clock_mhz` is its SM clock, `most_mhz` the highest that it
    can have, `temperature_c` its temperature in degrees Celsius, and `others` the number of other processes
    that use it. None for an emulator, or if a value could not be read."""

    problems: tuple[str, ...] = ()
    clock_mhz: float | None = None
    most_mhz: float | None = None
    temperature_c: float | None = None
    others: int | None = None

    def __str__(self) -> str:
        """The health as one line for people: "healthy" or the problems, then clock and temperature of a
        GPU."""
        parts = []
        if self.clock_mhz is not None and self.most_mhz is not None:
            parts.append(f"{self.clock_mhz:.0f} of {self.most_mhz:.0f} MHz")
        if self.temperature_c is not None:
            parts.append(f"{self.temperature_c:.0f} °C")
        return ", ".join([*(self.problems or ("healthy",)), *parts])


def look_at(kind: OwnedKind) -> Health:
    """Returns the health of the first device that this process can see; `kind` says whether that is a GPU or
    a PTX machine (the emulator). Call it before this process opens the device, because all processes found on
    the device count as other ones. No problems are reported for a PTX machine, or if the GPU cannot be read.
    """
    uuid = nvml.visible_uuid() if kind == "cuda" else None
    found = nvml.reading(uuid) if uuid is not None else None
    return Health() if found is None else judge_reading(found)


def judge_reading(found: GpuReading) -> Health:
    """Returns the health of a GPU from `found`, a reading of its sensors. A GPU that is slowed down, has 90
    °C or more (HOT_C) or is used by other processes has problems, because times measured on it would be
    wrong."""
    problems = list(found.slowed)
    if found.temperature_c is not None and found.temperature_c >= HOT_C:
        problems.append(f"{found.temperature_c:.0f} °C")
    if found.processes:
        problems.append(f"used by {found.processes} other process{'es' if found.processes > 1 else ''}")
    return Health(
        problems=tuple(problems),
        clock_mhz=found.clock_mhz,
        most_mhz=found.most_mhz,
        temperature_c=found.temperature_c,
        others=found.processes,
    )
