"""A fleet on Ray: an actor for each device of its nodes, which may join and leave at any time."""

import getpass
import os
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernelblaster.fleet.board import Board, DeviceEntry
from kernelblaster.fleet.owner import Owner
from kernelblaster.fleet.ray_owner import ActorOwner, TaskCompilers
from kernelblaster.fleet.requests import OwnedKind
from kernelblaster.fleet.status import GpuStatus, NodeStatus, gpus_of_machine

NAMESPACE = "kernelblaster"
MACHINES = "ptx_machine"  # the Ray resource that says how many PTX machines a node offers
BOARD = "board"
ASK_S = 15.0  # seconds that nodes may take to tell their state
POLL_S = 1.0  # between two looks at the nodes
RESTARTS = 3  # of an owner that was lost again and again without having answered anything


@dataclass(frozen=True)
class _Slot:
    """The key of a device in a Ray cluster: the id in Ray of its `node` (machine), and the `number` of the
    GPU or PTX machine (emulator) there."""

    node: str
    number: int


class RayFleet:
    """A `Fleet` of the devices of one kind on all nodes of the Ray cluster that this process is connected to.
    Nodes that join later are used too."""

    demands_health = True

    def __init__(self, kind: OwnedKind) -> None:
        self._kind = kind
        self._user = f"{getpass.getuser()}@{socket.gethostname()} {os.getpid()}"
        self._id = token_hex(4)
        self._lock = Lock()
        self._owners: dict[_Slot, ActorOwner] = {}
        self._failures: Counter[_Slot] = Counter()
        self._refused: dict[_Slot, str] = {}
        self._why = ""
        self._over = Event()
        self._join: Callable[[Owner], None] = lambda owner: None
        self._thread = Thread(target=self._watch, daemon=True, name="nodes")
        self._board = open_board()
        self.compilers = TaskCompilers()

    def start(self, join: Callable[[Owner], None]) -> None:
        self._join = join
        self._thread.start()

    def replace(self, lost: Owner, why: str, *, fruitful: bool) -> None:
        with self._lock:
            slot = self._slot_of(lost)
            if slot is None:
                return
            self._owners.pop(slot).end()
            self._failures[slot] = 0 if fruitful else self._failures[slot] + 1
            self._why = why
            if self._failures[slot] > RESTARTS:
                self._refused[slot] = why
        self._board.remove.remote(lost.name)

    def refuse(self, owner: Owner, why: str) -> None:
        """Leaves the device of an owner (the Ray actor that has it) unused, for the reason `why`. The actor
        is kept, so that Ray does not give the device to another actor."""
        with self._lock:
            slot = self._slot_of(owner)
            if slot is None:
                return
            self._refused[slot] = self._why = why
        self._board.put.remote(DeviceEntry(owner.name, slot.node, self._user, refused=why))

    def note(self, owner: Owner, about: str) -> None:
        self._board.note.remote(owner.name, about)

    def hopeless(self) -> str | None:
        """If every device of the cluster was refused, returns the reason of the last refusal, since no device
        can be expected any more. None otherwise: a device may still join."""
        with self._lock:
            refused = self._refused and set(self._owners) <= set(self._refused)
        return self._why if refused else None

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        with self._lock:
            for owner in self._owners.values():
                owner.end()
                self._board.remove.remote(owner.name)
            self._owners.clear()

    def _slot_of(self, owner: Owner) -> _Slot | None:
        """The device (node and number) of an owner (the Ray actor that has it); None if it has none any more,
        because its node is gone."""
        return next((slot for slot, one in self._owners.items() if one is owner), None)

    def _watch(self) -> None:
        """Body of a thread: until the fleet is closed, start an owner (a Ray actor) for each device that has
        none, every POLL_S seconds."""
        while not self._over.is_set():
            self._look()
            self._over.wait(POLL_S)

    def _look(self) -> None:
        """Compare the devices that the cluster's machines offer now with the owners: forget those of lost
        machines, start owners for new devices, and adjust how many compilers may run."""
        nodes = [node for node in ray.nodes() if node["Alive"]]
        offered = {
            _Slot(node["NodeID"], number): node
            for node in nodes
            for number in range(devices_of(node["Resources"], self._kind))
        }
        cores = sum(node["Resources"].get("CPU", 0.0) for node in nodes)
        busy = len(offered) if self._kind == "cuda" else 0  # a core of each GPU is left to whoever times
        self.compilers.slots = max(1, int(cores) - busy)
        with self._lock:
            for slot in set(self._owners) - set(offered):
                self._owners.pop(slot)  # its calls raise by themselves
            new = [slot for slot in offered if slot not in self._owners and slot not in self._refused]
            for slot in new:
                self._owners[slot] = self._owner(slot, offered[slot])
            started = [self._owners[slot] for slot in new]
        for owner in started:
            self._board.put.remote(DeviceEntry(owner.name, owner.node, self._user))
            self._join(owner)

    def _owner(self, slot: _Slot, node: dict[str, Any]) -> ActorOwner:
        """Starts an owner, a Ray actor, for the device `slot` of the machine that Ray describes as `node`;
        its name (machine, device and a random part) is unique."""
        title = "GPU" if self._kind == "cuda" else "PTX machine"
        name = f"{node['NodeManagerAddress']} {slot.node[:6]} {title} {slot.number} ({token_hex(3)})"
        return ActorOwner(self._kind, name, slot.node, _takes(node["Resources"], self._kind), NAMESPACE)


def _takes(resources: dict[str, float], kind: OwnedKind) -> dict[str, Any]:
    """The Ray resources that the owner of one device takes on a machine with `resources`: a GPU and a core,
    for the process that times; or one PTX machine (emulator) and no core, since those share the cores with
    compilers."""
    if kind == "cuda":
        return {"num_gpus": 1, "num_cpus": 1}
    return {"num_cpus": 0, "resources": {MACHINES: 1}} if MACHINES in resources else {"num_cpus": 0}


def devices_here(kind: OwnedKind) -> int:
    """How many devices of this kind all live machines of the Ray cluster together offer now."""
    return sum(devices_of(node["Resources"], kind) for node in ray.nodes() if node["Alive"])


def devices_of(resources: dict[str, float], kind: OwnedKind) -> int:
    """Returns how many devices of this `kind` a node with these Ray resources offers. GPUs: as many as it
    has. PTX machines (emulators): the number that it was started with (`fleet start --ptx-machines`), else
    one for every two cores."""
    if kind == "cuda":
        return int(resources.get("GPU", 0))
    if MACHINES in resources:
        return int(resources[MACHINES])
    return max(1, int(resources.get("CPU", 0)) // 2)


def open_board() -> Any:
    """Returns the Ray actor with the fleet's board, the list of what each device is used for. Makes it if
    there is none; it lives as long as the cluster."""
    made = ray.remote(Board).options(  # type: ignore[attr-defined]
        name=BOARD,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        num_cpus=0,
    )
    return made.remote()


def ray_status() -> list[NodeStatus]:
    """The state of each machine of the cluster that this process is connected to. A machine that does not
    answer within 15 s (ASK_S) is listed without its GPUs."""
    nodes = ray.nodes()
    asked = {node["NodeID"]: _ask_gpus(node["NodeID"]) for node in nodes if node["Alive"]}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=ASK_S)
    living = {one["name"] for one in ray.util.list_named_actors(all_namespaces=True)}
    entries = [one for one in ray.get(open_board().entries.remote()) if one.name in living]
    return [
        NodeStatus(
            address=node["NodeManagerAddress"],
            alive=node["Alive"],
            cores=int(node["Resources"].get("CPU", 0)),
            machines=devices_of(node["Resources"], "emulated") if node["Alive"] else 0,
            gpus=_answer_of(asked.get(node["NodeID"])),
            devices=tuple(one for one in entries if one.node == node["NodeID"]),
        )
        for node in nodes
    ]


def _ask_gpus(node: str) -> Any:
    """Asks a machine (by its id in Ray) for the state of its GPUs, without waiting; `_answer_of` takes what
    this returns."""
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(gpus_of_machine).options(  # type: ignore[attr-defined]
        num_cpus=0, max_retries=0, scheduling_strategy=where
    )
    return task.remote()


def _answer_of(reference: Any) -> tuple[GpuStatus, ...] | None:
    """The GPUs of a machine, from the reference of `_ask_gpus`; None if it was not asked or has not
    answered."""
    try:
        return None if reference is None else ray.get(reference, timeout=0.1)  # type: ignore[no-any-return]
    except ray.exceptions.RayError:
        return None
