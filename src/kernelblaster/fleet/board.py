"""The board: which devices of a fleet are in use, by whom and for what. One process of the fleet keeps it,
and `fleet status` shows it."""

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class DeviceEntry:
    """A device of a fleet that a command uses: its owner's `name`; the `node` (machine) that it is on;
    `user`, whose command it is; what it works on (`about`, empty if nothing) and since when (seconds since
    1970); `refused` says why the device is not used, empty if it is."""

    name: str
    node: str
    user: str
    about: str = ""
    since: float = 0.0
    refused: str = ""


class Board:
    """The list of all devices of a fleet that commands use at the moment, by name, with what each works on
    and for whom."""

    def __init__(self) -> None:
        self._entries: dict[str, DeviceEntry] = {}

    def put(self, entry: DeviceEntry) -> None:
        """Adds a device to the list, or replaces its entry; the time in `since` becomes the present one."""
        self._entries[entry.name] = replace(entry, since=time.time())

    def note(self, name: str, about: str) -> None:
        """Record what a device works on from now on (`about`, in words; empty: nothing). Ignored for an
        unknown device."""
        entry = self._entries.get(name)
        if entry is not None:
            self._entries[name] = replace(entry, about=about, since=time.time())

    def remove(self, name: str) -> None:
        """Takes the device of this name off the list, when it is not in use any more."""
        self._entries.pop(name, None)

    def entries(self) -> list[DeviceEntry]:
        """All devices in use, each with what it works on and for whom, sorted by name."""
        return sorted(self._entries.values(), key=lambda entry: entry.name)
