"""Models in tests are on this machine: no proxy, no key of the person who runs the tests."""

import os

import pytest

KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "OPENROUTER_API_KEY",
    "KERNELBLASTER_API_KEY",
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name in KEYS or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
