"""The options of one evaluation of a candidate, which the command line and the library pass to the judge."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kernelblaster.records.evaluation import BaselineName

Progress = Callable[[str], None]


def silent(stage: str) -> None:
    """Does nothing: the progress callback for those who do not want to hear of stages."""


@dataclass(frozen=True)
class EvaluationOptions:
    """What one evaluation of a candidate includes. `baseline` says how PyTorch is run to compare with
    ("eager", "compile", ...). `profile` adds a profile of a correct candidate, `sanitize` a run of
    compute-sanitizer. `filter` says when the emulator checks a candidate for races: "emulated", before a GPU
    runs it; None, only after it was found faster. `keep_samples` stores every pair of times in the
    evaluation. `progress` is called with the name of each stage when it begins."""

    baseline: BaselineName = "eager"
    profile: bool = False
    sanitize: bool = False
    filter: Literal["emulated"] | None = None
    keep_samples: bool = False
    progress: Progress = silent
