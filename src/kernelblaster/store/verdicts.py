"""Stores evaluations, in a folder or in a shared store (database). So a candidate that several searches of
one task try is judged once."""

import hashlib
import re
from pathlib import Path
from typing import Protocol

from sqlalchemy import select

from kernelblaster.records import Evaluation
from kernelblaster.records.record import Record
from kernelblaster.store.database import StoreDatabase, open_store
from kernelblaster.store.files import write_whole
from kernelblaster.store.tables import verdicts

_WRITTEN = re.compile(r'\{"sum":"([0-9a-f]{16})","evaluation":(\{.*\})\}\n')


class VerdictKey(Record):
    """What a kept evaluation is about: the GPU's short name (`gpu`), a hash of the task (`task`) and a hash
    of the candidate's source and constants (`code`)."""

    gpu: str
    task: str
    code: str


class Verdicts(Protocol):
    """Interface of a collection of stored evaluations, which are found by GPU, task and candidate
    (`VerdictKey`). Once an evaluation is stored for a key, it is never replaced."""

    def get(self, key: VerdictKey) -> Evaluation | None:
        """Returns the evaluation that is kept for this GPU, task and candidate (`key`); None if there is
        none, or it is damaged."""
        ...

    def keep(self, key: VerdictKey, evaluation: Evaluation) -> Evaluation:
        """Stores the evaluation under this key and returns it; if there is one already, that one stays and is
        returned."""
        ...


class FileVerdicts:
    """Stored evaluations (`Verdicts`) as one file each in a folder, for all processes of this machine that
    use the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: VerdictKey) -> Evaluation | None:
        try:
            return _decoded(self._path(key).read_text())
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, key: VerdictKey, evaluation: Evaluation) -> Evaluation:
        earlier = self.get(key)
        if earlier is not None:
            return earlier
        text = _encoded(evaluation)
        write_whole(self._path(key), text)
        kept = _decoded(text)
        assert kept is not None
        return kept

    def _path(self, key: VerdictKey) -> Path:
        return self._folder / key.gpu / key.task / f"{key.code}.json"


class StoredVerdicts:
    """Stored evaluations (`Verdicts`) in a shared store: everybody who uses that database reads and writes
    the same ones."""

    def __init__(self, store: StoreDatabase) -> None:
        self._store = store

    def get(self, key: VerdictKey) -> Evaluation | None:
        here = [verdicts.c[name] == value for name, value in key.model_dump().items()]
        query = select(verdicts.c.text).where(*here)
        text: str | None = self._store.transact(lambda connection: connection.execute(query).scalar())
        return None if text is None else _decoded(text)

    def keep(self, key: VerdictKey, evaluation: Evaluation) -> Evaluation:
        text = _encoded(evaluation)
        self._store.transact(lambda c: self._store.add(c, verdicts, **key.model_dump(), text=text))
        kept = self.get(key)
        return kept if kept is not None else evaluation


def open_verdicts(where: str | Path) -> Verdicts:
    """Opens a collection of kept evaluations: in a folder, or in the shared database whose URL `where` is."""
    return StoredVerdicts(open_store(str(where))) if "://" in str(where) else FileVerdicts(Path(where))


def _encoded(evaluation: Evaluation) -> str:
    """Writes an evaluation as a line of JSON with a checksum in front, which `_decoded` verifies."""
    text = evaluation.model_dump_json()
    return f'{{"sum":"{_sum(text)}","evaluation":{text}}}\n'


def _decoded(text: str) -> Evaluation | None:
    """The evaluation in a line that `_encoded` wrote; None if the line is damaged, so that the candidate
    must be judged again."""
    match = _WRITTEN.fullmatch(text)
    return Evaluation.model_validate_json(match[2]) if match and _sum(match[2]) == match[1] else None


def _sum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
