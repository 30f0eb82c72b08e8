"""`filtered` reduces a knowledge base to what was learned on one GPU architecture, for one family of kernels
(kind of computation), or from measured (or modelled) times only."""

from dataclasses import dataclass
from typing import Literal

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.evidence import MODELLED, Evidence
from kernelblaster.knowledge.tally import Tally

Clock = Literal["", "measured", "modelled"]


@dataclass(frozen=True)
class KnowledgeFilter:
    """Says which results of attempts to keep: those on a GPU `architecture` ("sm_90a"), for a `family` of
    kernels, with times by this `clock` ("measured" or "modelled"). An empty text keeps all."""

    architecture: str = ""
    family: str = ""
    clock: Clock = ""

    @property
    def empty(self) -> bool:
        return not (self.architecture or self.family or self.clock)

    def keeps(self, platform: str) -> bool:
        """True if results recorded under `platform` are kept. A platform is an architecture ("sm_90a"), with
        a suffix if times come from a model of the GPU: "sm_90a (modelled)". The filter's family is not
        considered here."""
        modelled = platform.endswith(MODELLED)
        if self.clock and modelled != (self.clock == "modelled"):
            return False
        return not self.architecture or platform.removesuffix(MODELLED) == self.architecture


@dataclass(frozen=True)
class Choices:
    """The values by which a knowledge base can be filtered: architectures, families of kernels (kinds of
    computation), and whether it has measured and modelled times."""

    architectures: tuple[str, ...]
    families: tuple[str, ...]
    measured: bool
    modelled: bool


def choices_of(content: Content) -> Choices:
    """Returns which filters make sense for a knowledge base with this `content`: the architectures, families
    of kernels (kinds of computation), and kinds of times (measured, modelled) that its results come from."""
    platforms: set[str] = set()
    families: set[str] = set()
    for entry in content.living_entries:
        for platform, cells in entry.evidence.gains.items():
            platforms.add(platform)
            families |= cells.keys()
    return Choices(
        tuple(sorted({name.removesuffix(MODELLED) for name in platforms})),
        tuple(sorted(families)),
        any(not name.endswith(MODELLED) for name in platforms),
        any(name.endswith(MODELLED) for name in platforms),
    )


def filtered(content: Content, wanted: KnowledgeFilter) -> Content:
    """Returns a copy of the knowledge base `content` with only those results of attempts that `wanted` keeps.
    Failures are kept as a number only: their kinds are not recorded for each GPU. If `wanted` is for one
    family (kind of computation), what is known about which technique came before another is left out, because
    it is not recorded by family."""
    if wanted.empty:
        return content
    entries = {
        state: {name: _filtered_entry(entry, wanted) for name, entry in techniques.items()}
        for state, techniques in content.entries.items()
    }
    return Content(content.version, content.states, entries)


def _filtered_entry(entry: OptimizationEntry, wanted: KnowledgeFilter) -> OptimizationEntry:
    """A copy of what is known about a technique in a state (`entry`) with only the results of attempts that
    `wanted` keeps."""
    evidence = entry.evidence
    gains: dict[str, dict[str, Tally]] = {}
    for platform, cells in evidence.gains.items():
        kept = {name: t for name, t in cells.items() if not wanted.family or name == wanted.family}
        if kept and wanted.keeps(platform):
            gains[platform] = kept
    after = {}
    if not wanted.family:
        for technique, cells in evidence.after.items():
            mine = {platform: tally for platform, tally in cells.items() if wanted.keeps(platform)}
            if mine:
                after[technique] = mine
    failed = sum(tally.failed for cells in gains.values() for tally in cells.values())
    failures = {"failed": failed} if failed else {}
    new = Evidence.model_construct(gains=gains, after=after, failures=failures)
    return entry.model_copy(update={"evidence": new})
