"""What the expert wrote before and what it writes now, as pairs of sources for old_and_new.py. Needs no GPU.

    python benchmarks/old_and_new_sources.py FILE [TASK ...] [--before 9f8c76e] [--most 3]

Each task of core that the expert covered at the revision BEFORE is taken along fixed paths of techniques
(PATHS of expert_kernels.py, CHAINS of golden.py), by the code of that revision and by today's; of each
technique the first plan counts, and one that does not apply is passed over. FILE (JSON) gets, for every task,
the task as today's code derives it and at most MOST pairs of sources that differ as programs
(program_digest.py): the path of the best measured results first, then those whose new source is least like
the ones that were taken. Paths that give the same program are only counted.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BEFORE = "9f8c76e"  # the last revision before the expert's plan was redesigned
FIRST = (1, 3, 0, 2)  # PATHS by how often they were the fastest
Sources = dict[str, dict[str, Any]]  # task -> "signature", "sources" by path, or "refused"


def paths() -> list[tuple[str, ...]]:
    """All paths of techniques, those that matter most first."""
    from expert_kernels import PATHS
    from golden import CHAINS

    return [tuple(path.split(",")) for path in (*(PATHS[place] for place in FIRST), *CHAINS)]


def emitted(names: list[str], wanted: list[list[str]]) -> Sources:
    """What the package of this process writes for each task, by path; runs in a process of its own."""
    from expert_kernels import starting_plan

    from kernelblaster.api import load_task
    from kernelblaster.errors import KernelBlasterError
    from kernelblaster.policies.expert.emit import emit
    from kernelblaster.policies.expert.techniques import load_techniques

    techniques = load_techniques()
    found: Sources = {}
    for name in names:
        try:
            task = load_task(name)
            start = starting_plan(task)
        except KernelBlasterError as error:
            found[name] = {"refused": str(error)[:200]}
            continue
        sources = {}
        for path in wanted:
            plan = start
            applied: list[str] = []
            for technique in path:
                following = next(techniques[technique](plan), None)
                if following is not None:
                    plan = following
                    applied.append(technique)
            sources[",".join(path)] = {"applied": applied, "source": emit(plan)}
        found[name] = {
            "task": task.model_dump(mode="json"),
            "signature": task.signature.model_dump(mode="json"),
            "sources": sources,
        }
        print(f"{name}: {len(sources)} paths", file=sys.stderr, flush=True)
    return found


def emitted_by(tree: Path, names: list[str], wanted: list[tuple[str, ...]], kept: Path) -> Sources:
    """`emitted` by the package of a source tree."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'benchmarks'}{os.pathsep}{tree / 'src'}"}
    asked = json.dumps({"tree": str(tree), "names": names, "paths": wanted})
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--emit", str(kept)]
    subprocess.run(command, input=asked, text=True, check=True, env=environment, cwd=tree)
    found: Sources = json.loads(kept.read_text())
    return found


def unpacked(revision: str, folder: Path) -> Path:
    """The sources of a revision of this repository, in a folder."""
    packed = subprocess.run(["git", "archive", revision], cwd=HERE.parent, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def pairs_of(old: dict[str, Any], new: dict[str, Any], most: int) -> tuple[list[dict[str, Any]], int, int]:
    """(pairs to be timed, programs that are the same in both, all pairs that differ) of one task."""
    from program_digest import program_digest

    same: set[str] = set()
    differing: dict[tuple[str, str], dict[str, Any]] = {}
    for path, after in new["sources"].items():
        before = old["sources"][path]
        digests = program_digest(before["source"]), program_digest(after["source"])
        if digests[0] == digests[1]:
            same.add(digests[0])
            continue
        pair = {"path": path, "old_applied": before["applied"], "new_applied": after["applied"]}
        differing.setdefault(digests, {**pair, "old": before["source"], "new": after["source"]})
    left = list(differing.values())
    taken = left[:1]
    left = left[1:]
    while left and len(taken) < most:
        further = min(left, key=lambda pair: max(_likeness(pair, known) for known in taken))
        left.remove(further)
        taken.append(further)
    return taken, len(same), len(differing)


def _likeness(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How alike the new sources of two pairs are, by lines: 0 to 1."""
    return SequenceMatcher(None, one["new"].splitlines(), other["new"].splitlines()).ratio()


def written(old: Sources, new: Sources, most: int) -> dict[str, Any]:
    """What the file says of each task that was covered."""
    tasks = {}
    for name, before in old.items():
        after = new[name]
        if "refused" in before:
            continue
        if "refused" in after or before["signature"] != after["signature"]:
            tasks[name] = {"incomparable": after.get("refused", "its signature is another one now")}
            continue
        pairs, same, differing = pairs_of(before, after, most)
        tasks[name] = {"task": after["task"], "pairs": pairs, "same": same, "differing": differing}
    return tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("tasks", nargs="*", default=["core"])
    parser.add_argument("--before", default=BEFORE)
    parser.add_argument("--most", type=int, default=3, help="pairs of each task")
    parser.add_argument("--emit", type=Path, help=argparse.SUPPRESS)  # what a process of its own does
    options = parser.parse_args()
    if options.emit:
        asked = json.load(sys.stdin)
        import kernelblaster

        assert Path(kernelblaster.__file__).is_relative_to(asked["tree"]), kernelblaster.__file__
        options.emit.write_text(json.dumps(emitted(asked["names"], asked["paths"])))
        return
    if options.file is None:
        parser.error("name the file that is to be written")
    from kernelblaster.tasks.catalog import find

    names = [name for given in options.tasks for name, _ in find(given)]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        tree = unpacked(options.before, Path(made).resolve() / "before")
        old = emitted_by(tree, names, paths(), Path(made) / "old.json")
        covered = [name for name in names if "refused" not in old[name]]
        new = emitted_by(HERE.parent, covered, paths(), Path(made) / "new.json")
    tasks = written({name: old[name] for name in covered}, new, options.most)
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, check=True, capture_output=True, text=True
    ).stdout.strip()
    options.file.parent.mkdir(parents=True, exist_ok=True)
    options.file.write_text(json.dumps({"before": options.before, "after": revision, "tasks": tasks}))
    pairs = [len(one.get("pairs", [])) for one in tasks.values()]
    print(
        f"{len(tasks)} tasks were covered at {options.before}: {sum(pairs)} pairs of {sum(map(bool, pairs))} "
        f"of them, {sum(one.get('same', 0) for one in tasks.values())} programs are the same; "
        f"{options.file.stat().st_size / 1e6:.1f} MB, {time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
