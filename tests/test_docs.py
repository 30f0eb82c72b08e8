"""Links in the documentation lead somewhere, and no page is forgotten."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub and mkdocs make of a page's headings."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text())):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(words.replace(" ", "-"))
    return found


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(FENCE.sub("", page.read_text())) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_index_and_on_the_site() -> None:
    indexed = {(DOCS / link).resolve() for link in links(DOCS / "index.md")}
    site = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        if page.name != "index.md":
            assert page in indexed, page
        assert f" {page.relative_to(DOCS).as_posix()}\n" in site + "\n", page


def test_what_the_tutorial_calls_exists() -> None:
    """Every verb and option of its commands is one of the commands'."""
    from kernelblaster.cli.main import VERBS, load_command

    guides = ("tutorial", "for-kernel-engineers", "for-ml-engineers", "for-teams")
    texts = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in guides)]
    commands = re.findall(
        r"^ +kernelblaster ([a-z].*)$", "\n".join(t.read_text() for t in texts), re.MULTILINE
    )
    assert len(commands) > 30
    for line in commands:
        words = line.split("  ")[0].split("#")[0].split()
        assert words[0] in VERBS, line
        command = load_command(words.pop(0))
        if hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known, line
