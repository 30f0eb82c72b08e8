"""What changed between two profiles, in words."""

from kernelblaster.report.profile_words import changes


def test_what_rose_and_what_fell() -> None:
    before = [
        {"name": "_Z1aPf", "us": 80.0, "read": 2e9, "dram": 40.0},
        {"name": "b", "us": 20.0, "read": 1e9},
    ]
    after = [{"name": "void c<4>(float *)", "us": 25.0, "read": 1e9, "dram": 90.0}]
    found = changes(before, after, "ncu")
    assert found is not None and found.tier == "ncu"
    assert found.rose == ["use of device memory's bandwidth: from 40% to 90%"]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in found.fell] == [
        "time in kernels: from 100 us to 25 us (-75%)",
        "bytes read from device memory: from 3 GB to 1 GB (-67%)",
    ]
    assert found.kernels == "1 kernel instead of 2. The one that takes longest is c; it was a."


def test_small_changes_and_absent_figures_are_not_told() -> None:
    found = changes([{"name": "a", "us": 100.0, "l2": 5.0}], [{"name": "a", "us": 99.0}], "ncu")
    assert found is not None and (found.rose, found.fell, found.kernels) == ([], [], "")
    assert changes([], [{"name": "a"}], "ncu") is None


def test_much_more_is_told_as_a_factor() -> None:
    found = changes([{"name": "a", "instructions": 2e6}], [{"name": "a", "instructions": 9e6}], "ncu")
    assert found is not None
    assert found.rose == [
        "warp instructions: from 2\N{NO-BREAK SPACE}M to 9\N{NO-BREAK SPACE}M, 4.5 times as much"
    ]
