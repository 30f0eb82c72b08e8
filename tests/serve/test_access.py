"""Pages can be used without seeing them: every control and picture has a name, every page a title and
landmarks."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelblaster.testing.made_bench import made_bench
from tests.report.made_run import MadeRun, made_run
from tests.serve.site import TOKEN, client_of, dashboard_of

OUTCOMES = [("Slower", 125.0), ("Accepted", 50.0), ("CompileFailed", 999.0)]
PATHS = ["/", "/runs/r", "/runs/live", "/compare?a=r&b=live", "/benches", "/benches/b", "/knowledge", "/none"]


class Named(HTMLParser):
    """What is on a page; `nameless` are controls and pictures that a screen reader could not name."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.nameless: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self._labelled: set[str] = set()
        self._controls: list[tuple[str, dict[str, str]]] = []
        self._open: list[tuple[str, str]] = []
        self._labels = 0
        self.feed(page)
        for text, about in self._controls:
            if about.get("id", "") not in self._labelled:
                self.nameless.append(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        text = self.get_starttag_text() or tag
        self.tags.append(tag)
        self.ids += [about["id"]] if about.get("id") else []
        named = bool(about.get("aria-label") or about.get("aria-labelledby"))
        self._labels += tag == "label"
        if tag == "label":
            self._labelled.add(about.get("for", ""))
        elif tag in ("input", "select", "textarea") and about.get("type") != "hidden":
            if not named and not self._labels:
                self._controls.append((text, about))
        elif (tag == "img" and "alt" not in about) or (
            tag == "svg" and not named and about.get("aria-hidden") != "true"
        ):
            self.nameless.append(text)
        elif tag in ("button", "a") and not named:
            self._open.append((tag, text))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self._open = []

    def handle_endtag(self, tag: str) -> None:
        self._labels -= tag == "label"
        if self._open and self._open[-1][0] == tag:
            self.nameless.append(self._open.pop()[1])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    made_run(root / "runs" / "r", OUTCOMES)
    live = MadeRun(root / "runs" / "live", models={"lowerer": {"model": "m"}})
    live.judge("Slower", 125.0)
    live.ask("lowerer/a", "the prompt", {"summary": "s"})
    live.judge("Accepted", 50.0)
    live.close()
    (root / "benches").mkdir()
    made_bench(root / "benches" / "b", 4, 3).close()
    return root


@pytest.mark.parametrize("path", PATHS)
def test_every_control_and_picture_has_a_name(root: Path, path: str) -> None:
    page = Named(client_of(dashboard_of(root)).get(path).text)
    assert page.nameless == []
    assert len(page.ids) == len(set(page.ids)), "an id is there twice"
    assert page.tags.count("main") == 1 and page.tags.count("title") == 1 and page.tags.count("h1") == 1


def test_the_form_for_the_token_has_a_name(root: Path) -> None:
    assert Named(client_of(dashboard_of(root), TOKEN).get("/login").text).nameless == []
