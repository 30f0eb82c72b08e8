import os

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(autouse=True)
def _not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proven here is not durability."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
