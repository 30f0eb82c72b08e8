"""The names of the selection rules."""

from typing import Literal

Selection = Literal["weighted", "thompson"]
"""By which rule a search draws the techniques that it tries (`knowledge/select.py`, docs/knowledge.md)."""
