"""The sampler of docstrings: public ones only, with what `help()` shows, the same ones for the same seed."""

import docstrings

SAMPLE = '''"""A module."""

class Public(Base):
    """A class."""
    size: int

    def method(self, *, much: int = 1) -> int:
        """A method."""
        def inner() -> None:
            """Not drawn."""

    def _private(self) -> None:
        """Not drawn."""

class _Hidden:
    """Not drawn."""

    def method(self) -> None:
        """Not drawn."""

def silent() -> None:
    pass
'''


def test_what_is_public_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(docstrings, "SOURCE", tmp_path)
    (tmp_path / "one.py").write_text(SAMPLE)
    found = docstrings.documented(tmp_path)
    assert [(one.name, one.signature, one.text) for one in found] == [
        ("", "", "A module."),
        ("Public", "class Public(Base), fields size: int", "A class."),
        ("Public.method", "Public.method(self, *, much: int=1) -> int", "A method."),
    ]
    assert str(found[0]) == "one.py: module\n\n    A module.\n"


def test_a_seed_draws_the_same():
    found = docstrings.documented(docstrings.SOURCE / "records")
    one, again = (docstrings.sampled(found, 40, seed=7) for _ in range(2))
    assert one == again != docstrings.sampled(found, 40, seed=8)
    assert len(set(map(str, one))) == 40
    assert len(docstrings.sampled(found[:3], 40, seed=7)) == 3
