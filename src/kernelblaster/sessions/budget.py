"""`SearchBudget`: the limits of a search. They are checked before a batch of candidates is judged, so that no
batch exceeds them."""

from kernelblaster.records import Evaluation
from kernelblaster.sessions.settings import Search
from kernelblaster.store.steering import SetBudget


class SearchBudget:
    """Counts the `evaluations` (judged candidates) and the device time in seconds (`gpu_seconds`) that a
    search has used, against the limits in `search`. Wall-clock time is not counted here; callers pass it.
    `spent` becomes True when a batch did not fit into the limits, or no evaluation is left; `change` may set
    it back."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.evaluations = 0
        self.gpu_seconds = 0.0
        self.spent = False

    def spend(self, evaluation: Evaluation) -> None:
        """Counts one judged candidate, and the seconds for which it occupied the device, which its
        `evaluation` has."""
        self.evaluations += 1
        self.gpu_seconds += evaluation.device_seconds
        self.spent = self.spent or self.evaluations_left == 0

    def change(self, limits: SetBudget) -> None:
        """Sets the limits that a person has changed while the search runs; those that are None stay. The
        attribute `spent` (nothing more may be judged) becomes False if evaluations are left by the new
        limits."""
        given = limits.model_dump(exclude={"kind"}, exclude_none=True)
        self._search = self._search.model_copy(update=given)
        self.spent = self.evaluations_left == 0

    def afford(self, wanted: int, wall_seconds: float) -> int:
        """Returns how many of `wanted` further evaluations fit into all limits (evaluations, wall-clock time,
        device time), if each takes as long as the average of those so far. Before the first evaluation, when
        no average is known, returns at most 1. `wall_seconds` is the time since the search began."""
        if not self.evaluations:
            return min(wanted, 1)
        fits = [wanted, self.evaluations_left]
        for spent, limit in self._times(wall_seconds):
            if limit is not None and spent > 0:
                fits.append(int(max(0.0, limit - spent) / (spent / self.evaluations)))
        return min(fits)

    @property
    def evaluations_left(self) -> int:
        return max(0, self._search.evaluations - self.evaluations)

    def seconds_left(self, wall_seconds: float) -> tuple[float | None, float | None]:
        """Returns the seconds left as (wall-clock time, device time); None where there is no limit.
        `wall_seconds` is the time since the search began."""
        wall, gpu = (
            None if limit is None else max(0.0, limit - spent) for spent, limit in self._times(wall_seconds)
        )
        return wall, gpu

    def _times(self, wall_seconds: float) -> tuple[tuple[float, float | None], tuple[float, float | None]]:
        """What is spent and what is allowed, in seconds: (spent, limit) of wall time, then of device time. A
        limit is None if there is none."""
        return (wall_seconds, self._search.wall_seconds), (self.gpu_seconds, self._search.gpu_seconds)
