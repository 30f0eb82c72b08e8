"""One finding of `doctor` about a machine or a model."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that `doctor` checked: the `subject`, its `state`, a `detail` sentence and `advice` if
    something can be improved. If `needed`, nothing works without it."""

    subject: str
    state: Literal["ok", "limited", "missing"]
    detail: str
    advice: str = ""
    needed: bool = False
