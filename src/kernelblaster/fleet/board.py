"""The board: which devices of a fleet are in use, by whom and for what. It is kept in one process of the
fleet, and `fleet status` shows it."""

import time
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class DeviceEntry:
    """A device of a fleet that a command uses. `name` is the name of its owner (the process that has the
    device), `node` the machine with the device, `user` the person who gave the command. `about` says in words
    what the device works on, empty if on nothing; it has done so since the time `since` (seconds since 1970).
    `refused` says why the device is not used; empty if it is used."""

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
        """Adds a device to the list, or replaces its entry. The entry's `since` is set to the present
        time."""
        self._entries[entry.name] = replace(entry, since=time.time())

    def note(self, name: str, about: str) -> None:
        """Records in words what the device `name` works on from now on; an empty `about` means nothing.
        Ignored if the device is not on the list."""
        entry = self._entries.get(name)
        if entry is not None:
            self._entries[name] = replace(entry, about=about, since=time.time())

    def remove(self, name: str) -> None:
        """Takes the device of this name off the list, when it is not in use any more."""
        self._entries.pop(name, None)

    def entries(self) -> list[DeviceEntry]:
        """All devices in use, each with what it works on and for whom, sorted by name."""
        return sorted(self._entries.values(), key=lambda entry: entry.name)
