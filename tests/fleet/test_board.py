"""What people are shown of a fleet."""

from kernelblaster.fleet.board import Board, DeviceEntry
from kernelblaster.fleet.status import device_line


def test_the_board_shows_what_each_device_does() -> None:
    board = Board()
    board.put(DeviceEntry("b GPU 0", "b", "me"))
    board.put(DeviceEntry("a GPU 1", "a", "me", refused="95 °C"))
    board.note("b GPU 0", "evaluate candidate 1234 of relu")
    board.note("gone", "nothing")
    one, other = board.entries()
    assert device_line(one, one.since + 5) == "a GPU 1: refused: 95 °C, for 5 s, by me"
    assert device_line(other, other.since) == "b GPU 0: evaluate candidate 1234 of relu, for 0 s, by me"
    board.note("b GPU 0", "")
    assert "idle" in device_line(board.entries()[1])
    board.remove("a GPU 1")
    assert [entry.name for entry in board.entries()] == ["b GPU 0"]
