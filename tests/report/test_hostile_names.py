"""Names and notes that are HTML stay text on a page."""

from html.parser import HTMLParser

from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.records import Optimization, State
from kernelblaster.report.knowledge_page import knowledge_page

SCRIPT = "</script><script>planted()</script><img src=x onerror=planted()> \" onload='planted()"


class Reading(HTMLParser):
    """What a browser would run, and what it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.run: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.run += [value or "" for name, value in attributes if name.startswith("on")]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script" and data.lstrip().startswith("planted"):
            self.run.append(data)


def test_a_page_runs_nothing_that_a_name_says() -> None:
    knowledge = KnowledgeBase("sqlite://")
    state = State(name=f"s{SCRIPT}", primary="latency", secondary=(SCRIPT,), description=SCRIPT)
    knowledge.add_state(state)
    optimization = Optimization(technique=f"t{SCRIPT}", title=SCRIPT, description=SCRIPT, predicted=1.5)
    knowledge.add_optimization(state.name, optimization)
    knowledge.note(state.name, SCRIPT)
    page = Reading()
    text = knowledge_page(knowledge, SCRIPT)
    page.feed(text)
    assert page.run == [] and "<img src=x" not in text and "planted()" in text
