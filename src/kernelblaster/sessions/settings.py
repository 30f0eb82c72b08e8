"""`Search`: the settings of a search, such as how many iterations, rollouts, steps and candidates it has, and
how techniques are chosen."""

from pydantic import Field

from kernelblaster.judge.sweep import MOST_SWEPT
from kernelblaster.records.record import Record
from kernelblaster.records.selection import Selection


class Search(Record):
    """The settings of a search. All its random choices follow from `seed`.

    There are up to `iterations`. In each, `rollouts` walk side by side, up to `steps` steps each. At each
    step `choices` techniques are tried, and a candidate that fails is corrected up to `retries` times. A
    rollout ends after `patience` steps without a gain.

    The search ends when its best candidate takes at most `near_floor` times the least possible time, after
    `evaluations` judged candidates, after `wall_seconds` in all, or after `gpu_seconds` for which it held the
    device (None: no limit).

    After an iteration, the candidates with the `explained` most surprising results are profiled, so that they
    can be explained.

    Some candidates are chosen by the emulator's timing model before the judge sees them. A policy writes
    `samples` candidates for one technique, and the fastest of these is judged (1: no choice). If a candidate
    declares tunable constants, up to `swept` combinations of their values are compared (0: no choice). With
    `ranked`, the fastest candidates of a step are measured if the budget does not suffice for all.

    `selection` is how techniques are drawn: `weighted`, with a chance in proportion to the predicted gain to
    the power `sharpness` (1 in the MAIC-RL paper), or `thompson` (Thompson sampling). With `quick` there is
    no search: the best known recipe is applied and judged."""

    iterations: int = Field(default=10, ge=1)
    rollouts: int = Field(default=2, ge=1)
    steps: int = Field(default=10, ge=1)
    choices: int = Field(default=2, ge=1)
    retries: int = Field(default=1, ge=0)
    patience: int = Field(default=2, ge=1)
    evaluations: int = Field(default=60, ge=1)
    wall_seconds: float | None = Field(default=None, gt=0)
    gpu_seconds: float | None = Field(default=None, gt=0)
    near_floor: float = Field(default=1.05, ge=1)
    explained: int = Field(default=4, ge=0)
    samples: int = Field(default=1, ge=1)
    swept: int = Field(default=MOST_SWEPT, ge=0)
    ranked: bool = True
    quick: bool = False
    selection: Selection = "weighted"
    sharpness: float = Field(default=2.0, gt=0)
    seed: int = 0
