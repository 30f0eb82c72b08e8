"""Steering: what people ask of a search while it runs (pin or forbid a technique, leave a note, change the
budget, stop), and how the search obeys.

The requests are in a file in the run's folder (store/steering.py). The search takes them at check points,
between two steps. It records which requests it took at which check point, so that a continued search takes
them at the same ones. A request to stop is obeyed sooner: before the next candidate is judged, and before
anything new is chosen or asked of a model.
"""

from collections.abc import Sequence

from kernelblaster.errors import SearchStopped
from kernelblaster.records.recipe import techniques_of
from kernelblaster.store.run import STEERING, Run
from kernelblaster.store.steering import (
    STEERED,
    STOPPED,
    ForbidTechnique,
    LeaveNote,
    PinTechnique,
    ReleaseTechnique,
    SetBudget,
    SteeringCommand,
    StopSearch,
    read_commands,
)


class Steering:
    """What people have asked so far of the search that `run` records. `pinned` techniques are tried first, in
    this order; `forbidden` ones are not tried at all; `notes` are added to questions to a language model."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._path = run.folder / STEERING
        self._size = 0
        self._commands: list[SteeringCommand] = []
        recorded = [
            one for event in run.events if event.kind in (STEERED, STOPPED) for one in _commands(event.data)
        ]
        self._seen = {one.id for one in recorded}
        self._shown = {
            id_ for event in run.events for id_ in event.data.get("notes", ()) if event.kind == "question"
        }
        self.pinned: tuple[str, ...] = ()
        self.forbidden: frozenset[str] = frozenset()
        self.notes: tuple[SteeringCommand, ...] = ()

    def take(self, key: str) -> list[SetBudget]:
        """Obeys what people have asked for since the last check point, and records it in the run. Changes of
        limits are not obeyed here but returned, and the caller has to apply them. `key` names this check
        point in the run's record and must be unique in the run. Raises SearchStopped if a person has asked to
        stop."""
        self.check()
        self.notes = tuple(one for one in self.notes if one.id not in self._shown or _stands(one))
        data = self._run.recorded(STEERED, key)
        if data is None and self._run.caught_up:
            new = [
                one
                for one in self._read()
                if one.id not in self._seen and not isinstance(one.action, StopSearch)
            ]
            if new:
                dumped = [one.model_dump(mode="json") for one in new]
                data = self._run.once(STEERED, key, lambda: {"commands": dumped})
        limits = []
        for one in _commands(data or {}):
            self._seen.add(one.id)
            if isinstance(one.action, SetBudget):
                limits.append(one.action)
            else:
                self._obey(one)
        return limits

    def check(self) -> None:
        """Raises SearchStopped, and records it, if a person has asked to stop this search. Requests from
        before this process opened the run do not count."""
        for one in self._read():
            stops = isinstance(one.action, StopSearch) and one.at >= self._run.opened
            if stops and one.id not in self._seen:
                self._seen.add(one.id)
                why = f"stopped by a person ({one.by})"
                self._run.append(STOPPED, why=why, commands=[one.model_dump(mode="json")])
                raise SearchStopped(f"{why}; what was judged is kept.")

    def show(self, notes: Sequence[str]) -> None:
        """Remembers that the notes with these ids were shown to a model. At the next check point they are
        dropped, except notes that are meant for the whole search (`LeaveNote.standing`)."""
        self._shown |= set(notes)

    def allows(self, technique: str) -> bool:
        """True if no person has forbidden this technique or, for a recipe (several techniques in one step),
        any of its techniques."""
        return self.forbidden.isdisjoint(techniques_of(technique))

    def _obey(self, command: SteeringCommand) -> None:
        """Change which techniques are pinned (tried first) or forbidden, or which notes there are, as a
        command says."""
        match command.action:
            case PinTechnique(technique=name):
                self.pinned = (*(one for one in self.pinned if one != name), name)
                self.forbidden -= {name}
            case ForbidTechnique(technique=name):
                self.pinned = tuple(one for one in self.pinned if one != name)
                self.forbidden |= {name}
            case ReleaseTechnique(technique=name):
                self.pinned = tuple(one for one in self.pinned if one != name)
                self.forbidden -= {name}
            case LeaveNote():
                if command.id not in self._shown or _stands(command):
                    self.notes = (*self.notes, command)

    def _read(self) -> list[SteeringCommand]:
        """All commands that people have given to this search so far. Their file is read again only if its
        size has changed."""
        try:
            size = self._path.stat().st_size
        except OSError:
            return self._commands
        if size != self._size:
            self._size = size
            self._commands = read_commands(self._run.folder)[0]
        return self._commands


def _commands(data: dict[str, object]) -> list[SteeringCommand]:
    """Restores the commands that a check point has recorded, from the `data` of its event; empty if it
    recorded none."""
    kept = data.get("commands", ())
    assert isinstance(kept, list | tuple)
    return [SteeringCommand.model_validate(one) for one in kept]


def _stands(command: SteeringCommand) -> bool:
    """Whether the command leaves a note that is shown in all further questions to a model, not only in the
    next step's."""
    return isinstance(command.action, LeaveNote) and command.action.standing
