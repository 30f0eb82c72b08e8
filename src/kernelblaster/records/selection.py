"""The names of the rules by which a search chooses at random which techniques it tries next."""

from typing import Literal

Selection = Literal["weighted", "thompson"]
"""By which rule a search draws the techniques that it tries (`knowledge/select.py`, docs/knowledge.md)."""
