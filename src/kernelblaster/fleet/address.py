"""Addresses of fleets, as `--fleet` takes them (`local`, `auto`, `ray://HOST:PORT`): parsed and printed."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal

from kernelblaster.errors import KernelBlasterError

HEAD_PORT = 6379
CLIENT_PORT = 10001
HELP = "give local (all devices of this machine), auto (the fleet that runs here), or ray://HOST:PORT"


@dataclass(frozen=True)
class FleetAddress:
    """Where a fleet is, by `kind`. "local": owner processes of this machine, no Ray. "auto": the Ray cluster
    that runs on this machine; without one, the same as "local". "ray": a cluster that is reached at `host`
    and `port`."""

    kind: Literal["local", "auto", "ray"]
    host: str = ""
    port: int = CLIENT_PORT

    def __str__(self) -> str:
        return f"ray://{self.host}:{self.port}" if self.kind == "ray" else self.kind


def parse_fleet(text: str) -> FleetAddress:
    """Parses what a user gives as --fleet: `local`, `auto` or `ray://HOST[:PORT]`. Raises KernelBlasterError
    for anything else."""
    if text in ("local", "auto"):
        return FleetAddress(text)  # type: ignore[arg-type]
    scheme, mark, rest = text.partition("://")
    host, colon, port = rest.rpartition(":") if ":" in rest and not rest.endswith("]") else (rest, "", "")
    if scheme != "ray" or not mark or not host or (colon and not port.isdigit()):
        raise KernelBlasterError(f"--fleet {text}: is no fleet; {HELP}.")
    return FleetAddress("ray", host, int(port) if port else CLIENT_PORT)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`: it is `localhost` or an address of the loopback
    interface."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
