"""How long the GPU is kept busy before PyTorch's work, with a host and a GPU made of numbers."""

from collections.abc import Callable

import pytest

from kernelblaster.devices.lead import MOST_US, Lead

FLUSH_US = 60.0


def timed(lead: Lead, issue_us: Callable[[], float], work_us: float, *, waits: bool = False) -> list[float]:
    """The times that were taken of work that the host needs `issue_us` to issue; `waits`: half of it is
    issued when the other half is done."""
    times = []
    lead.begin()
    while True:
        before_us, host_us = lead.us + FLUSH_US, issue_us()
        if waits:
            host_us = max(before_us, host_us / 2) + work_us / 2 + host_us / 2
        times.append(max(work_us, host_us - before_us))
        if not lead.late(host_us, in_time=host_us < before_us):
            return times


def test_a_quick_host_needs_no_lead() -> None:
    lead = Lead(FLUSH_US)
    assert timed(lead, lambda: 15.0, 8.0) == [8.0]
    assert lead.us == 0


@pytest.mark.parametrize("issue_us", [100.0, 400.0, 9000.0])
def test_a_slow_host_makes_no_difference(issue_us: float) -> None:
    lead = Lead(FLUSH_US)
    first = timed(lead, lambda: issue_us, 8.0)
    assert first[0] > 30 and first[-1] == 8.0
    for _ in range(50):
        assert timed(lead, lambda: issue_us, 8.0) == [8.0]


def test_a_pause_of_the_host_is_measured_again() -> None:
    lead, pauses = Lead(FLUSH_US), iter([20.0, 20.0, 5000.0, 20.0])
    assert [timed(lead, lambda: next(pauses), 8.0) for _ in range(3)] == [[8.0], [8.0], [4940.0, 8.0]]
    for _ in range(400):
        assert timed(lead, lambda: 20.0, 8.0) == [8.0]
    assert lead.us < 10


def test_work_that_waits_for_the_gpu_is_not_measured_for_ever() -> None:
    lead = Lead(FLUSH_US)
    for _ in range(20):
        assert len(timed(lead, lambda: 30.0, 500.0, waits=True)) <= 3
    assert lead.us < 2000


def test_a_little_noise_is_not_taken_for_waiting() -> None:
    lead, host_us = Lead(FLUSH_US), iter([100.0, 230.0, 150.0])
    assert timed(lead, lambda: next(host_us), 8.0)[-1] == 8.0


def test_there_is_an_end() -> None:
    lead = Lead(FLUSH_US)
    for _ in range(5):
        assert len(timed(lead, lambda: 4 * MOST_US, 8.0)) <= 4
    assert lead.us <= MOST_US
