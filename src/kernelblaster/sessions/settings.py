"""How far a search goes."""

from typing import Literal

from pydantic import Field

from kernelblaster.records.record import Record


class Search(Record):
    """How far a search goes. All its choices follow from `seed`.

    Of `rollouts` side by side, each makes up to `steps` steps in each of the `iterations`, and tries
    `choices` techniques at each; a failed one `retries` times more. A rollout ends after `patience` steps
    without a gain; everything ends within `near_floor` of the floor. `evaluations` candidates may be
    judged, in `wall_seconds` of which they may hold the device for `gpu_seconds`. After an iteration the
    `explained` most surprising results are profiled, so that there is something to explain them by.
    Techniques are drawn with a chance in proportion to predicted gain to the power `sharpness` (1 is the
    paper's), or by Thompson sampling.
    """

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
    selection: Literal["weighted", "thompson"] = "weighted"
    sharpness: float = Field(default=2.0, gt=0)
    seed: int = 0
