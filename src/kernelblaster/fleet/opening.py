"""Opens the fleet that a command names with `--fleet`.

    with open_machines(FleetChoice(parse_fleet("auto"))) as machines:
        kind = machines.kind("auto")  # "cuda" if there is a GPU, else "emulated"
        with machines.dispatcher(kind, PassingLeases(), print) as dispatcher: ...

The fleet "auto" is the Ray cluster that runs on this machine, or without one this machine alone. The
dispatcher hands requests to all devices of the chosen kind; a FleetJudge (fleet_judge.py) sends them.
`PassingLeases` counts lost processes in memory, and `print` gets messages for people.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.address import FleetAddress, parse_fleet
from kernelblaster.fleet.dispatcher import Dispatcher, Say
from kernelblaster.fleet.leases import Leases
from kernelblaster.fleet.local_fleet import LocalFleet, gpus_here, machines_here
from kernelblaster.fleet.node_file import NodeFile, read_node
from kernelblaster.fleet.owner import Fleet
from kernelblaster.fleet.requests import OwnedKind
from kernelblaster.fleet.status import NodeStatus, gpus_of_machine
from kernelblaster.fleet.token import read_token, token_file
from kernelblaster.opening import DeviceKind, kind_here
from kernelblaster.processes.cores import usable_cores
from kernelblaster.settings import fleet_token, use_fleet_token

MISSING = "this needs Ray: pip install 'kernelblaster[fleet]'."


@dataclass(frozen=True)
class FleetChoice:
    """The fleet that a command uses: `address` says where it is, `token` is the file with its token (None:
    the user's own)."""

    address: FleetAddress
    token: Path | None = None


def fleet_named(name: str | None, token: Path | None = None) -> FleetChoice | None:
    """Returns the fleet that a user names with `--fleet`: its address, as `name` gives it (`local`, `auto` or
    `ray://HOST[:PORT]`), and `token`, the file with its token (None: the user's own). None if `name` is None.
    Raises KernelBlasterError for a malformed name."""
    return None if name is None else FleetChoice(parse_fleet(name), token)


class Machines(Protocol):
    """Interface to the machines of a fleet: says which devices they have and gives access to them. This
    process is connected to them."""

    def kind(self, kind: DeviceKind, gpu: str | None = None) -> OwnedKind:
        """Returns the kind of device to use. "auto" becomes "cuda" if a machine of the fleet has a GPU, else
        "emulated"; any other `kind` is returned as it is. `gpu` is the model of GPU that is wanted, or that
        PTX machines stand for; raises KernelBlasterError if that model is unknown."""
        ...

    def devices(self, kind: OwnedKind) -> int:
        """How many devices of a kind the fleet's machines have at this moment: GPUs ("cuda"), or PTX
        machines, which are emulators ("emulated")."""
        ...

    def status(self) -> list[NodeStatus]:
        """The present state of each machine of the fleet: whether it is alive, its cores and GPUs, and which
        devices are in use."""
        ...

    def dispatcher(self, kind: OwnedKind, leases: Leases, say: Say) -> AbstractContextManager[Dispatcher]:
        """A context that yields a dispatcher, which hands requests to all devices of this `kind`; at its end
        the devices are given back. `leases` count how often work was lost with a device's process, `say` is
        called with messages for people."""
        ...


class LocalMachine:
    """The devices of this machine alone, with the interface of a fleet's machines (`Machines`); Ray is not
    used."""

    def kind(self, kind: DeviceKind, gpu: str | None = None) -> OwnedKind:
        return kind_here(kind, gpu)

    def devices(self, kind: OwnedKind) -> int:
        return len(gpus_here()) if kind == "cuda" else machines_here()

    def status(self) -> list[NodeStatus]:
        machines = machines_here()
        return [NodeStatus("this machine", True, usable_cores(), machines, gpus_of_machine())]

    def dispatcher(self, kind: OwnedKind, leases: Leases, say: Say) -> AbstractContextManager[Dispatcher]:
        gpus = gpus_here() if kind == "cuda" else ()
        machines = machines_here() if kind == "emulated" else 0
        return _dispatching(LocalFleet(gpus, machines, demands_health=True), leases, say)


class RayMachines:
    """All machines of the Ray cluster that this process is connected to, with the interface of a fleet's
    machines (`Machines`): says which devices they have and gives access to them."""

    def kind(self, kind: DeviceKind, gpu: str | None = None) -> OwnedKind:
        from kernelblaster.devices.specs import gpu_named

        if gpu is not None:
            gpu_named(gpu)
        if kind == "auto":
            return "cuda" if self.devices("cuda") else "emulated"
        return kind

    def devices(self, kind: OwnedKind) -> int:
        from kernelblaster.fleet.ray_fleet import devices_here

        return devices_here(kind)

    def status(self) -> list[NodeStatus]:
        from kernelblaster.fleet.ray_fleet import ray_status

        return ray_status()

    def dispatcher(self, kind: OwnedKind, leases: Leases, say: Say) -> AbstractContextManager[Dispatcher]:
        from kernelblaster.fleet.ray_fleet import RayFleet

        return _dispatching(RayFleet(kind), leases, say)


def _dispatching(fleet: Fleet, leases: Leases, say: Say) -> AbstractContextManager[Dispatcher]:
    return closing(Dispatcher(fleet, leases, say))


def machines_of(choice: FleetChoice | None) -> "AbstractContextManager[Machines | None]":
    """A context that yields the machines of the fleet `choice`, to which this process is connected until its
    end. If `choice` is None, it yields None."""
    return nullcontext() if choice is None else open_machines(choice)


@contextmanager
def open_machines(choice: FleetChoice) -> Iterator[Machines]:
    """A context in which this process is connected to the machines of the fleet `choice`; it yields them.
    Raises KernelBlasterError if they cannot be reached, refuse the token, or Ray is not installed."""
    address = choice.address
    node = read_node() if address.kind == "auto" else None
    if address.kind == "local" or (address.kind == "auto" and node is None):
        yield LocalMachine()
        return
    where = node.address if node is not None else str(address)
    token = token_for(choice, node)
    use_fleet_token(token)  # before Ray is imported
    try:
        from kernelblaster.fleet.ray_session import ray_session
    except ModuleNotFoundError as error:
        raise KernelBlasterError(f"--fleet {address}: {MISSING}") from error
    with ray_session(where, token):
        yield RayMachines()


def token_for(choice: FleetChoice, node: NodeFile | None = None) -> str | None:
    """Returns the fleet's secret token, None if there is none. It is taken from the first of these places
    that applies: the file that `choice` names; the environment (as on Kubernetes); the file that this
    machine's `node` was started with; the user's own file, if there is no node. Raises KernelBlasterError if
    `choice` names a file that does not exist."""
    if choice.token is not None:
        given = read_token(choice.token)
        if given is None:
            raise KernelBlasterError(f"{choice.token}: there is no such file.")
        return given
    return fleet_token() or read_token(Path(node.token) if node is not None else token_file())
