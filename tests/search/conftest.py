import os

import pytest


@pytest.fixture(autouse=True)
def _disk_writes_need_not_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven here is not durability, and hundreds of searches write a lot."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
