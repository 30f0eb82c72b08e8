"""The expert policy's sources as digests: a change of its code that should change no kernel can prove it.

    python benchmarks/golden.py [TASK ...] (--save FILE | --compare FILE) [--graphs FOLDER] [--letters]

Every task that the expert covers is taken along chains of techniques, from the plan after simplification and
fusion. At the initial plan and at each plan on the way, every technique is applied, and the digests of the
first few sources that it gives are kept in its order: those that differ from the plan's own source and from
each other, as a search would meet them. `--compare` lists the plans and techniques whose sources differ, and
ends with 1 if there are any. Graphs that were captured are kept in a folder with `--graphs`: capturing
takes longer than all the rest, and a graph depends on the task only. Without names: all core tasks. Digests
are of what the sources do, not of how they are laid out (program_digest.py); with `--letters` of every
letter. `--sources FOLDER` keeps the sources themselves, by digest.

The last lines tell how many plans techniques gave that changed no source, and how long the techniques and
the emission took.
"""

import argparse
import hashlib
import json
import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from program_digest import program_digest

from kernelblaster.api import load_task
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import Graph, UncoveredOperators
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.tasks.catalog import find

CHAINS = (
    "warp_shuffle_reduction,vectorized_memory_access,rows_in_registers,thread_coarsening,cache_hints,unrolling,"
    "index_simplification,fast_math",
    "online_reduction,vectorized_memory_access,rows_across_blocks,unrolling,cache_hints,index_simplification",
    "two_level_reduction,vectorized_memory_access,unrolling,cache_hints,fast_math",
    "vectorized_memory_access,thread_coarsening,cache_hints,block_shape",
    "transposed_staging,block_shape,index_simplification",
    "shared_memory_tiling,double_buffering,split_k,fast_math",
    "register_tiling,split_k,asynchronous_copy,index_simplification,block_shape",
    "split_operand_tensor_cores,split_k,warpgroup_matrix_multiply,cache_hints",
    "tensor_core_utilization,warpgroup_matrix_multiply,index_simplification,fast_math",
)
FIRST = 3  # plans of each technique; with --all every one
Golden = dict[str, dict[str, list[str]]]  # plan -> technique -> digests; the plan's own is under ""


@dataclass
class Tally:
    """What is told at the end."""

    sources: int = 0
    unchanged: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass
class Digests:
    """Makes digests, and keeps the sources of new ones in a folder, if there is one."""

    letters: bool
    folder: Path | None

    def __call__(self, source: str) -> str:
        found = hashlib.sha256(source.encode()).hexdigest()[:12] if self.letters else program_digest(source)
        if self.folder is not None and not (file := self.folder / f"{found}.cu").exists():
            file.write_text(source)
        return found


def graph_of(name: str, graphs: Path | None) -> Graph | None:
    """The task's graph, captured or kept; None where it cannot be captured."""
    kept = graphs / f"{name.replace('/', '.')}.pickle" if graphs else None
    if kept and kept.exists():
        found: Graph | None = pickle.loads(kept.read_bytes())
        return found
    try:
        graph = capture(load_task(name))
    except (UncoveredOperators, NotUniform):
        graph = None
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(graph))
    return graph


def fused(plan: Plan) -> Plan:
    while (further := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = further
    return plan


def plans(graph: Graph) -> Iterator[tuple[str, Plan]]:
    """The initial plan and every plan on the way along the chains, with what was applied to get there."""
    yield "initial", initial_plan(graph)
    start = fused(initial_plan(simplify(graph)))
    yield "fused", start
    for chain in CHAINS:
        plan, applied = start, "fused"
        for technique in chain.split(","):
            further = next(load_techniques()[technique](plan), None)
            if further is not None:
                plan, applied = further, f"{applied} > {technique}"
                yield applied, plan


def golden_of(graph: Graph, tally: Tally, most: int | None, digest: Digests) -> Golden:
    found: Golden = {}
    met: set[str] = set()
    begun = time.process_time()
    for title, plan in plans(graph):
        own = emit(plan)
        if own in met:
            continue
        met.add(own)
        sources = {
            name: [emit(further) for further in islice(technique(plan), most)]
            for name, technique in sorted(load_techniques().items())
        }
        tally.seconds += time.process_time() - begun
        found[title] = {"": [digest(own)]}
        for name, written in sources.items():
            seen = {own}
            different = [s for s in written if not (s in seen or seen.add(s))]  # type: ignore[func-returns-value]
            tally.sources += len(written)
            tally.unchanged[name] += len(written) - len(different)
            if different:
                found[title][name] = [digest(source) for source in different]
        begun = time.process_time()
    return found


def differences(old: dict[str, Golden], new: dict[str, Golden]) -> Iterator[str]:
    for task in sorted(old.keys() | new.keys()):
        before, after = old.get(task, {}), new.get(task, {})
        if not before or not after:
            yield f"{task}: {'only now' if after else 'no more'}"
            continue
        for title in dict.fromkeys((*before, *after)):
            there, here = before.get(title), after.get(title)
            if there is None or here is None:
                yield f"{task}: {title}: {'only now' if here else 'no more'}"
                continue
            for technique in dict.fromkeys((*there, *here)):
                one, two = there.get(technique, []), here.get(technique, [])
                if not _alike(one, two):
                    same, name = len(set(one) & set(two)), technique or "itself"
                    yield f"{task}: {title}: {name}: {len(one)} -> {len(two)}, {same} the same"


def _alike(one: list[str], two: list[str]) -> bool:
    """Whether the sources are the same. Of the first few plans, those that were known are left out, so that
    one list may be the beginning of the other."""
    shorter = min(len(one), len(two))
    return one[:shorter] == two[:shorter] and (shorter > 0) == (max(len(one), len(two)) > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["core"])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--save", type=Path, help="write the digests to this file")
    what.add_argument("--compare", type=Path, help="compare with the digests of this file")
    parser.add_argument("--graphs", type=Path, help="keep captured graphs in this folder")
    parser.add_argument("--all", action="store_true", help="all plans of each technique, not the first few")
    parser.add_argument("--letters", action="store_true", help="digests of every letter of the sources")
    parser.add_argument("--sources", type=Path, help="keep the sources in this folder, by digest")
    options = parser.parse_args()
    if options.sources:
        options.sources.mkdir(parents=True, exist_ok=True)
    digest = Digests(options.letters, options.sources)
    names = [name for given in options.tasks for name, _ in find(given)]
    tally = Tally()
    found: dict[str, Golden] = {}
    for name in names:
        graph = graph_of(name, options.graphs)
        try:
            if graph is not None:
                found[name] = golden_of(graph, tally, None if options.all else FIRST, digest)
        except UncoveredOperators:
            continue
    if options.save:
        options.save.write_text(json.dumps(found, indent=1) + "\n")
    kept = {} if options.save else json.loads(options.compare.read_text())
    known = {name: kept[name] for name in names if name in kept}
    told = [] if options.save else list(differences(known, found))
    for line in told:
        print(line)
    several = ", ".join(f"{name} {count}" for name, count in tally.unchanged.most_common() if count)
    print(
        f"{len(found)} tasks, {sum(len(g) for g in found.values())} plans, {tally.sources} sources from them"
    )
    print(f"{sum(tally.unchanged.values())} of these were known: {several}")
    print(f"{tally.seconds:.1f} s of the CPU for techniques and emission; {len(told)} differences")
    sys.exit(1 if told else 0)


if __name__ == "__main__":
    main()
