"""`Finding`: one line of what `kernelblaster doctor` reports about a machine or a model."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that `doctor` checked: the `subject`, its `state`, a `detail` sentence, and `advice` on how
    to improve it (may be empty). If `needed`, nothing works without the subject."""

    subject: str
    state: Literal["ok", "limited", "missing"]
    detail: str
    advice: str = ""
    needed: bool = False
