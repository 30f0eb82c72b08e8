"""The budget of a search: checked before a batch starts, so that no batch exceeds it."""

from kernelblaster.records import Evaluation
from kernelblaster.sessions.settings import Search


class SearchBudget:
    """Counts what was spent. Times are in seconds; the owner reads the wall clock."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self.evaluations = 0
        self.gpu_seconds = 0.0

    def spend(self, evaluation: Evaluation) -> None:
        self.evaluations += 1
        self.gpu_seconds += evaluation.device_seconds

    def afford(self, wanted: int, wall_seconds: float) -> int:
        """How many of `wanted` evaluations fit into what is left, if each takes as long as those so far on
        average; the very first is always allowed."""
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
        """Seconds left of wall time and of device time; None without a limit."""
        wall, gpu = (
            None if limit is None else max(0.0, limit - spent) for spent, limit in self._times(wall_seconds)
        )
        return wall, gpu

    def _times(self, wall_seconds: float) -> tuple[tuple[float, float | None], tuple[float, float | None]]:
        return (wall_seconds, self._search.wall_seconds), (self.gpu_seconds, self._search.gpu_seconds)
