"""`SearchBudget`: the limits of a search, checked before a batch of candidates is judged, so that no batch
exceeds them."""

from kernelblaster.records import Evaluation
from kernelblaster.sessions.settings import Search
from kernelblaster.store.steering import SetBudget


class SearchBudget:
    """Counts the `evaluations` and the device time (`gpu_seconds`) spent so far, against the limits in
    `Search`, which `change` replaces. Wall-clock seconds are passed in by the caller. `spent` is true once a
    batch of candidates did not fit into the limits, or no evaluation is left."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.evaluations = 0
        self.gpu_seconds = 0.0
        self.spent = False

    def spend(self, evaluation: Evaluation) -> None:
        """Adds an evaluation that was made to what is spent: one candidate, and the seconds that it occupied
        the device."""
        self.evaluations += 1
        self.gpu_seconds += evaluation.device_seconds
        self.spent = self.spent or self.evaluations_left == 0

    def change(self, limits: SetBudget) -> None:
        """Sets the limits that a person changed while the search runs; a limit of None stays. A larger budget
        makes a spent one usable again."""
        given = limits.model_dump(exclude={"kind"}, exclude_none=True)
        self._search = self._search.model_copy(update=given)
        self.spent = self.evaluations_left == 0

    def afford(self, wanted: int, wall_seconds: float) -> int:
        """How many of `wanted` evaluations fit into all limits, if each takes as long as those so far on
        average; 1 if there was none yet. `wall_seconds` is the time since the search began."""
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
        """(wall time, device time) left, in seconds; None without a limit. `wall_seconds` is the time
        since the search began."""
        wall, gpu = (
            None if limit is None else max(0.0, limit - spent) for spent, limit in self._times(wall_seconds)
        )
        return wall, gpu

    def _times(self, wall_seconds: float) -> tuple[tuple[float, float | None], tuple[float, float | None]]:
        """What is spent and what is allowed, in seconds: (spent, limit) of wall time, then of device time. A
        limit is None if there is none."""
        return (wall_seconds, self._search.wall_seconds), (self.gpu_seconds, self._search.gpu_seconds)
