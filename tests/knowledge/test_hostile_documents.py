"""A document that cannot be is refused with one sentence that says what is wrong and where."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.cli import kb as commands
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge import KnowledgeBase, import_changes

ITEM = {"technique": "kernel_fusion", "predicted_speedup": 1.5}
STATE = {"primary_bottleneck": "latency", "optimizations": [ITEM]}


def item(**changes: Any) -> dict[str, Any]:
    return {"states": {"s": {**STATE, "optimizations": [{**ITEM, **changes}]}}}


def state(**changes: Any) -> dict[str, Any]:
    return {"states": {"s": {**STATE, **changes}}}


def evidence(*tally: object, **more: Any) -> dict[str, Any]:
    return item(evidence={"gains": {"sm_90": {"rows": list(tally)}}, **more})


def raw(text: str) -> bytes:
    return json.dumps(item(predicted_speedup=12321)).replace("12321", text).encode()


DEEP = b'{"states": ' + b'{"s": ' * 10_000 + b"}" * 10_001
HOSTILE: dict[str, tuple[Any, str]] = {
    "nothing": (b"", "is not JSON"),
    "half": (b'{"states": {', "is not JSON"),
    "not UTF-8": (b'{"states": {"\xff": {}}}', "is not UTF-8"),
    "UTF-16": ('{"states": {}}'.encode("utf-16"), "is not UTF-8"),
    "nested 10,000 deep": (DEEP, "nested deeper"),
    "brackets without an end": (b"[" * 1_000_000, "nested deeper|is not JSON"),
    "half a surrogate pair": (raw('1, "title": "\\ud800"'), "surrogate"),
    "a key twice": (raw('1.2, "technique": "other"'), "'technique' twice"),
    "a state twice": (b'{"states": {"s": {}, "s": {}}}', "'s' twice"),
    "NaN": (raw("NaN"), "NaN"),
    "Infinity": (raw("Infinity"), "Infinity"),
    "-Infinity": (raw("-Infinity"), "-Infinity"),
    "1e999": (raw("1e999"), "too large"),
    "an integer of 5000 digits": (raw("9" * 5000), "too large"),
    "an integer of 300 digits": (raw("9" * 300), "too large"),
    "a list": ([], r"\$: Input should be"),
    "a number": (42, r"\$: Input should be"),
    "null": (None, r"\$: Input should be"),
    "states that are a list": ({"states": []}, r"\$\.states"),
    "a state that is a text": ({"states": {"s": "fast"}}, r"\$\.states\.s"),
    "a state without a bottleneck": ({"states": {"s": {"optimizations": []}}}, "primary_bottleneck"),
    "an unknown bottleneck": (state(primary_bottleneck="gremlins"), "primary_bottleneck"),
    "a bottleneck that is a number": (state(primary_bottleneck=3), "primary_bottleneck"),
    "optimizations that are an object": (state(optimizations={"a": ITEM}), "optimizations"),
    "no technique": (state(optimizations=[{"predicted_speedup": 2}]), r"optimizations\[0\]\.technique"),
    "an unknown field": (item(command="rm"), r"optimizations\[0\]\.command"),
    "an unknown version": ({"version": 99, "states": {}}, r"\$\.version"),
    "a speedup of text": (item(predicted_speedup="2.5"), "predicted_speedup"),
    "a speedup that says Infinity": (item(predicted_speedup="Infinity"), "predicted_speedup"),
    "a speedup that is true": (item(predicted_speedup=True), "predicted_speedup"),
    "a negative speedup": (item(predicted_speedup=-2), "predicted_speedup"),
    "a speedup of zero": (item(prior_speedup=0), "prior_speedup"),
    "an absurd speedup": (item(predicted_speedup=1e300), "predicted_speedup"),
    "an infinite weight": (item(prior_weight="Infinity"), "prior_weight"),
    "an absurd weight": (item(prior_weight=1e300), "prior_weight"),
    "negative attempts": (item(attempts=-5), "attempts"),
    "a chance of 7": (item(valid_chance=7), "valid_chance"),
    "a metric of text": (state(metrics={"a": "b"}), "metrics"),
    "a metric that says NaN": (state(metrics={"a": "NaN"}), "metrics"),
    "notes that are a text": (item(notes="words"), "notes"),
    "a note of a megabyte": (item(notes=["x" * 1_000_000]), "notes"),
    "a name with a line break": (item(technique="a\nimport os"), "technique"),
    "a name with an escape": ({"states": {"\x1b[2J": STATE}}, "no name"),
    "a name that is a path": ({"states": {"../../etc/passwd": STATE}}, "no name"),
    "a name of nothing": (item(technique=""), "technique"),
    "a name of a kilobyte": (item(technique="x" * 1000), "technique"),
    "a technique twice": (state(optimizations=[ITEM, ITEM]), "'kernel_fusion' twice"),
    "negative evidence": (evidence(-3, 0.1, 0.0, 0), "gains"),
    "evidence of text": (evidence("many", 0.1, 0.0, 0), "gains"),
    "evidence without an end": (evidence(1e30, 0.1, 0.0, 0), "more attempts"),
    "gains without an end": (evidence(3, 1e30, 0.0, 0), "more attempts, or larger gains"),
    "too long a tally": (evidence(1, 2, 3, 4, 5, 6), "gains"),
    "more after than at all": (
        evidence(1, 0.1, 0, 0, after={"x": {"sm_90": [50, 0.1, 0, 0]}}),
        "more attempts `after`",
    ),
    "negative failures": (evidence(1, 0.1, 0, 0, failures={"Incorrect": -4}), "failures"),
    "20,000 states": ({"states": {str(n): STATE for n in range(20_000)}}, "states"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    document, expected = HOSTILE[name]
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(KernelBlasterError, match=expected) as caught:
        import_changes(data, "document.json")
    words = str(caught.value)
    assert words.startswith("document.json: ") and len(words) < 500
    assert "\n" not in words and "\x1b" not in words


def test_a_document_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(KernelBlasterError, match="larger than 17 MB"):
        commands._read(path)


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    path = tmp_path / "document.json"
    path.write_text(json.dumps({"states": {"good": STATE, "bad": {**STATE, "metrics": {"a": "NaN"}}}}))
    done = CliRunner().invoke(commands.app, ["import", str(path), "--kb", str(tmp_path / "kb.db")])
    assert isinstance(done.exception, KernelBlasterError) and not (tmp_path / "kb.db").exists()


def test_the_same_document_without_a_fault_is_taken() -> None:
    kb = KnowledgeBase("sqlite://")
    assert kb.take_over(import_changes(json.dumps(item()), "document.json")) == 2
