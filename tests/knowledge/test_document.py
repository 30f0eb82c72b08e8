"""Documents: in the paper's shape, small enough for a prompt, refused with the place that is wrong."""

import json
from random import Random

import pytest

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge import KnowledgeBase, Provenance, export_document, import_changes, plant
from kernelblaster.knowledge.seed import seed_document

FOREIGN = """
{
  "memory_bandwidth_saturated": {
    "optimizations": [{"technique": "vectorized_memory_access"}],
    "primary_bottleneck": "Global memory bandwidth saturation",
    "secondary_characteristics": "Memory throughput >80%, Coalescing efficiency varies"
  }
}
"""


@pytest.fixture
def kb() -> KnowledgeBase:
    kb = KnowledgeBase("sqlite://")
    plant(kb)
    return kb


def test_the_seed_is_rich_and_honest(kb: KnowledgeBase) -> None:
    content = kb.content()
    entries = [entry for row in content.entries.values() for entry in row.values()]
    assert len(content.states) >= 16 and len(entries) >= 60
    assert {entry.state.primary for entry in content.living} >= {"latency", "atomics", "tail-effect"}
    assert all(len(entry.description) > 40 and entry.preconditions for entry in entries)
    assert all(-0.2 < entry.prior < 1.1 and entry.weight == 1 for entry in entries)
    assert plant(kb) == 0


def test_a_document_of_the_paper_is_understood() -> None:
    kb = KnowledgeBase("sqlite://")
    kb.take_over(import_changes(FOREIGN, "paper.json"))
    state = kb.content().states["memory_bandwidth_saturated"].state
    assert state.primary == "memory-bandwidth" and len(state.secondary) == 2
    assert kb.optimizations(state.name)[0].optimization.title == "vectorized memory access"


@pytest.mark.parametrize("limit", [50_000, 20_000, 5_000, 1_000])
def test_a_document_fits_where_it_must(kb: KnowledgeBase, limit: int) -> None:
    random = Random(0)
    for name, entries in kb.content().entries.items():
        for technique in entries:
            where = Provenance(architecture=random.choice(["sm_80", "sm_90a"]), family="rows")
            kb.observe(name, technique, random.gauss(0.1, 0.1), where, before=("kernel_fusion",))
    text = export_document(kb.content(), limit)
    assert len(text.encode()) <= limit < len(export_document(kb.content()))
    KnowledgeBase("sqlite://").take_over(import_changes(text, "trimmed"))
    kept = json.loads(text)["states"]
    assert limit < 20_000 or len(kept) == 22, "each state keeps its best the longest"
    gains = [o["predicted_speedup"] for s in kept.values() for o in s["optimizations"]]
    assert gains and sum(gains) / len(gains) >= 1.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"text: is not JSON: .* at line 1, column 2"),
        ("[]", r"text: \$: "),
        ('{"s": 3}', r"\$\.states\.s: "),
        ('{"s": {"primary_bottleneck": "latency"}}', r"\$\.states\.s\.optimizations: Field required"),
        (
            '{"s": {"primary_bottleneck": "hunger", "optimizations": []}}',
            r"\$\.states\.s\.primary_bottleneck: ",
        ),
        (
            '{"s": {"primary_bottleneck": "latency", "optimizations": [{"technique": "a"}, {"title": "b"}]}}',
            r"\$\.states\.s\.optimizations\[1\]\.technique: Field required",
        ),
        (
            '{"s": {"primary_bottleneck": "latency", "optimizations": '
            '[{"technique": "a", "predicted_speedup": -1}]}}',
            r"optimizations\[0\]\.predicted_speedup: Input should be greater than 0",
        ),
        ('{"name": "left-pad", "version": "1.0"}', r"\$\.states\.name: "),
    ],
)
def test_a_broken_document_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(KnowledgeError, match=message):
        import_changes(text, "text")


def test_impossible_evidence_is_refused() -> None:
    document = json.loads(seed_document())
    item = document["states"]["atomics"]["optimizations"][0]
    item["evidence"] = {"gains": {"sm_80": {"rows": [-3, 0.1, 0.0, 0]}}}
    with pytest.raises(KnowledgeError, match=r"atomics\.optimizations\[0\]\.evidence\.gains\.sm_80\.rows"):
        import_changes(json.dumps(document), "text")


def test_a_limit_that_is_too_small_is_said(kb: KnowledgeBase) -> None:
    with pytest.raises(KnowledgeError, match="too few"):
        export_document(kb.content(), 5)
