"""Keeps a file that says which node of a fleet (its part on one machine) runs here, so that `fleet stop`
finds it."""

from pathlib import Path

from kernelblaster.records.record import Record
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole


class NodeFile(Record):
    """The content of a file about the node (a machine's part of a fleet) that `fleet start` has started for
    this user on this machine. `pid` is its main process, and `started` when that began, in the kernel's ticks
    since boot. `address` is the fleet's head node (HOST:PORT), `token` the path of the file with the fleet's
    token, `folder` the node's folder for temporary files."""

    pid: int
    started: int
    address: str
    token: str
    folder: str


def node_path() -> Path:
    """The path of the file that records this machine's node, in the user's data folder."""
    return settings().data / "fleet" / "node.json"


def write_node(node: NodeFile) -> None:
    write_whole(node_path(), node.model_dump_json() + "\n")


def read_node() -> NodeFile | None:
    """The node that runs on this machine; None if there is none, or it has ended."""
    try:
        node = NodeFile.model_validate_json(node_path().read_text())
    except (OSError, ValueError):
        return None
    return node if started_at(node.pid) == node.started else None


def started_at(pid: int) -> int | None:
    """Returns when the process `pid` began, in the kernel's ticks since boot; None if there is no such
    process, or it is a zombie. Together with the id, this tells a process from a later one that got the same
    id."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
