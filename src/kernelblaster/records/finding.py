"""What `doctor` found out, about a machine or a model."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at. A `needed` one must be there before anything works."""

    subject: str
    state: Literal["ok", "limited", "missing"]
    detail: str
    advice: str = ""
    needed: bool = False
