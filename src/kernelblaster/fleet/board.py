"""What the devices of a fleet are doing, for whoever looks: kept by one process of the fleet."""

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class DeviceEntry:
    """A device of a fleet: its owner's `name`, the `node` that it is on, whose command uses it (`user`),
    what it works on (`about`, empty if nothing) and since when (seconds since 1970); `refused` says why it is
    not used, empty if it is."""

    name: str
    node: str
    user: str
    about: str = ""
    since: float = 0.0
    refused: str = ""


class Board:
    """The entries of all devices in use, by name."""

    def __init__(self) -> None:
        self._entries: dict[str, DeviceEntry] = {}

    def put(self, entry: DeviceEntry) -> None:
        """Add or replace a device."""
        self._entries[entry.name] = replace(entry, since=time.time())

    def note(self, name: str, about: str) -> None:
        """Say what a device works on."""
        entry = self._entries.get(name)
        if entry is not None:
            self._entries[name] = replace(entry, about=about, since=time.time())

    def remove(self, name: str) -> None:
        """Remove a device that is not in use any more."""
        self._entries.pop(name, None)

    def entries(self) -> list[DeviceEntry]:
        """All devices, sorted by name."""
        return sorted(self._entries.values(), key=lambda entry: entry.name)
