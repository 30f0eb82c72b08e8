"""Which fleets can be named, and who may reach them."""

from pathlib import Path

import pytest

from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet import node, node_file
from kernelblaster.fleet.address import FleetAddress, is_loopback, parse_fleet
from kernelblaster.fleet.node import NodePlan, start_node
from kernelblaster.fleet.node_file import NodeFile, read_node, started_at, write_node
from kernelblaster.fleet.opening import FleetChoice, LocalMachine, open_machines, token_for
from kernelblaster.fleet.token import make_token, read_token, token_file


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)


def test_a_fleet_is_named() -> None:
    assert parse_fleet("local") == FleetAddress("local")
    assert parse_fleet("auto") == FleetAddress("auto")
    assert parse_fleet("ray://head:1234") == FleetAddress("ray", "head", 1234)
    assert str(parse_fleet("ray://head")) == "ray://head:10001"
    assert str(parse_fleet("ray://[::1]:5")) == "ray://[::1]:5"
    for wrong in ("", "here", "ray:/head", "ray://", "ray://head:", "ray://head:port", "http://head:1"):
        with pytest.raises(KernelBlasterError, match="is no fleet"):
            parse_fleet(wrong)


def test_loopback_is_this_machine_alone() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "::", "node7", "127.0.0.1.evil.org"))


@pytest.mark.parametrize(
    "plan", [NodePlan(host="10.0.0.1"), NodePlan(host="0.0.0.0"), NodePlan(join="10.0.0.1:6379")]
)
def test_a_fleet_that_others_can_reach_needs_a_token(plan: NodePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "find_spec", lambda name: name)
    with pytest.raises(KernelBlasterError, match=r"there is no token.*kernelblaster fleet token"):
        start_node(plan)
    assert not token_file().exists()


def test_a_token_is_its_owners_secret() -> None:
    path = token_file()
    assert read_token(path) is None
    assert make_token(path) and not make_token(path)
    token = read_token(path)
    assert token is not None and len(token) == 64 and path.stat().st_mode & 0o777 == 0o600
    assert token_for(FleetChoice(FleetAddress("auto"))) == token
    path.chmod(0o644)
    with pytest.raises(KernelBlasterError, match="others can read this token"):
        read_token(path)
    path.write_text("password")
    path.chmod(0o600)
    with pytest.raises(KernelBlasterError, match="holds no token"):
        read_token(path)
    with pytest.raises(KernelBlasterError, match="there is no such file"):
        token_for(FleetChoice(FleetAddress("auto"), path.with_name("other")))


def test_where_no_node_runs_the_fleet_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that has ended is none, even if another process has its number now."""
    own = started_at(1)
    assert own is not None and started_at(2**22 + 1) is None
    known = NodeFile(pid=1, started=own, address="127.0.0.1:6379", token="", folder="/nowhere")
    write_node(known)
    assert read_node() == known
    write_node(known.model_copy(update={"started": own + 1}))
    assert read_node() is None
    node_file.node_path().write_text("{")
    with open_machines(FleetChoice(FleetAddress("auto"))) as machines:
        assert isinstance(machines, LocalMachine)
        assert machines.kind("emulated") == "emulated" and machines.devices("emulated") >= 1
        [status] = machines.status()
        assert status.alive and status.cores >= 1
