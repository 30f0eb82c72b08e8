"""Finds objections to a candidate's code by fixed rules, without a model: forbidden libraries, missing
launches, unused arguments, special cases for the timed sizes."""

import re
from dataclasses import dataclass
from typing import Literal

from kernelblaster.judge.source_text import UnreadableSource
from kernelblaster.policies.llm.neutral import neutral
from kernelblaster.policies.llm.source import ENTRY, parts_of
from kernelblaster.records import Task

LIBRARIES = re.compile(r"\b(cublas\w*|cudnn\w*|cufft\w*|cusparse\w*|cusolver\w*|at::\w+|torch::\w+)", re.I)
LAUNCH = re.compile(r"<<<|\bcudaLaunchKernel\w*\s*\(")
EXACTLY = re.compile(r"\b(\w+)\s*==\s*(\d+)|\b(\d+)\s*==\s*(\w+)")


@dataclass(frozen=True)
class StructureFinding:
    """One objection to a candidate's code: its `kind`, and what was found, as `text`. `grave`: the candidate
    is rejected for it; otherwise the objection is only shown to the user."""

    kind: Literal[
        "forbidden-library", "no-work", "unread-argument", "special-case", "kept-state", "unreadable"
    ]
    text: str
    grave: bool


def structure(task: Task, source: str) -> list[StructureFinding]:
    """Returns the objections to the `source` of a candidate for `task` that fixed rules find, without a
    model: forbidden libraries, no launch, tensors that the launch function never mentions, special cases for
    the timed sizes, and state kept between calls. Empty if there are none. If compilers might read the source
    in two ways, this is the only objection returned, and a grave one."""
    try:
        code = neutral(source)
    except UnreadableSource as problem:
        return [StructureFinding("unreadable", str(problem), grave=True)]
    entry = next((part.text for part in parts_of(code) if part.name == ENTRY), "")
    body = entry.partition("{")[2]
    findings = [
        StructureFinding("forbidden-library", name, grave=True)
        for name in sorted(set(LIBRARIES.findall(code)))
    ]
    if not LAUNCH.search(code):
        findings.append(StructureFinding("no-work", "nothing is launched", grave=True))
    unread = [t.name for t in task.signature.tensors if not re.search(rf"\b{re.escape(t.name)}\b", body)]
    findings += [StructureFinding("unread-argument", f"{name} is not used", grave=False) for name in unread]
    findings += [StructureFinding("special-case", text, grave=False) for text in _special(task, code)]
    if re.search(r"^\s*static\s+(?!const|constexpr|__|inline|int\s*\()", body, re.MULTILINE):
        findings.append(
            StructureFinding("kept-state", "a static variable in the launch function", grave=False)
        )
    return findings


def _special(task: Task, code: str) -> list[str]:
    """Sentences on places in `code` that compare a size with exactly its value in the task's timed workload;
    values up to 16 are ignored."""
    findings = []
    for one in EXACTLY.finditer(code):
        name, value = (one[1], one[2]) if one[1] else (one[4], one[3])
        if task.primary.sizes.get(name) == int(value) and int(value) > 16:
            findings.append(f"a path for {name} == {value} alone")
    return sorted(set(findings))
