"""Small plots of a search for tables: the time of each candidate, the best so far, and the floor (the least
time that the GPU allows)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, log

WIDTH, HEIGHT = 132, 28
LEFT, RIGHT, TOP, BOTTOM = 3.0, 3.0, 3.0, 4.0


@dataclass(frozen=True)
class Sparkline:
    """A small plot, 132 by 28 units (WIDTH, HEIGHT), as SVG paths: the `best` time so far as a staircase,
    `dots` for single candidates as (x, y), the `floor` (the least time that the GPU allows), and the
    `baseline` (empty if it is far off). `tip` is a tooltip."""

    best: str
    dots: tuple[tuple[float, float], ...]
    floor: str
    baseline: str
    tip: str


def sparkline(
    times: Sequence[float | None], floor_us: float | None, baseline_us: float | None, limit: int | None = None
) -> Sparkline | None:
    """Returns a small plot of a search. `times` are those of its candidates in microseconds, in the order of
    judging, None for one that is not correct. `limit` is how many candidates the plot has room for; None: as
    many as there are. The vertical axis is the time, logarithmic; its lower end is `floor_us`, the least time
    that the GPU allows. The time of the baseline is `baseline_us`. None if no time or no floor is known."""
    times = [us if us is not None and us > 0 and isfinite(us) else None for us in times]
    known = [us for us in times if us is not None]
    if not known or not floor_us or not 0 < floor_us < inf:
        return None
    low, high = log(floor_us), log(max(*known, floor_us * 1.2))
    if baseline_us and floor_us < baseline_us < 4 * max(known):
        high = max(high, log(baseline_us))
    across = max(len(times), limit or 0, 2)

    def x(number: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * number / across, 1)

    def y(us: float) -> float:
        share = (min(max(log(us), low), high) - low) / (high - low)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)

    path, best = "", None
    dots = []
    for number, us in enumerate(times):
        if us is None:
            continue
        dots.append((x(number + 0.5), y(us)))
        if best is None or us < best:
            path += f"M{x(number)} {y(us)}" if best is None else f"H{x(number)}V{y(us)}"
            best = us
    near = baseline_us is not None and baseline_us > 0 and low < log(baseline_us) <= high
    return Sparkline(
        best=f"{path}H{x(len(times))}",
        dots=tuple(dots),
        floor=f"M{LEFT} {y(floor_us)}H{WIDTH - RIGHT}",
        baseline=f"M{LEFT} {y(baseline_us)}H{WIDTH - RIGHT}" if near and baseline_us else "",
        tip=f"{len(times)} judged; best {min(known):.4g} us, floor {floor_us:.4g} us",
    )
