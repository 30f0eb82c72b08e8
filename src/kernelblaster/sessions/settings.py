"""`Search`: the settings of a search (how many iterations, rollouts, steps and candidates, how techniques are
chosen)."""

from pydantic import Field

from kernelblaster.judge.sweep import MOST_SWEPT
from kernelblaster.records.record import Record
from kernelblaster.records.selection import Selection


class Search(Record):
    """How far a search goes. All its random choices follow from `seed`.

    In each of up to `iterations`, `rollouts` walk side by side, each of up to `steps` steps; at each step
    `choices` techniques are tried, and a failed one up to `retries` times more. A rollout ends after
    `patience` steps without a gain; the search ends when its best candidate takes at most `near_floor`
    times the least possible time. It is also limited to `evaluations` judged candidates, `wall_seconds`
    in all and `gpu_seconds` of holding the device (None: no limit). After an iteration the `explained`
    most surprising results are profiled, as evidence for their explanation. Of `samples` candidates that a
    policy writes for one technique, and of up to `swept` values of the constants that a candidate declares as
    tunable, the emulator's model chooses the one to be judged (1 and 0: no choice). With `ranked`, it also
    says which candidates of a step are measured, where the budget does not suffice for all. Techniques are
    drawn with a chance in proportion to predicted gain to the power `sharpness` (1 in the paper), or by
    Thompson sampling (`selection`). `quick`: instead of all that, the best known recipe is judged once."""

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
