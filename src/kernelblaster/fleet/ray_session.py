"""The connection of this process to a Ray cluster."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import ray

from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.ray_fleet import NAMESPACE

PROBE_S = 10.0
PROBES = ("/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo")
"""Calls that a head node (at its own port, at that for clients) answers if the token is right."""


@contextmanager
def ray_session(address: str, token: str | None) -> Iterator[None]:
    """A context in which this process is connected to the cluster at `address`: HOST:PORT of its head node,
    or ray://HOST:PORT from outside. The same `token` must have been given to `use_fleet_token` before this
    module was imported, since Ray reads it when it is imported itself. Raises KernelBlasterError if nobody
    answers there, or the token is refused."""
    check_cluster(address, token)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=False,
        )
    except Exception as error:
        raise KernelBlasterError(f"{address}: cannot be connected to: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def check_cluster(address: str, token: str | None) -> None:
    """Raise KernelBlasterError if no cluster answers at this address, or it refuses the token. Checked first,
    because Ray itself would try for long, and not say why."""
    client = address.startswith("ray://")
    headers = () if token is None else (("authorization", f"Bearer {token}"),)
    with grpc.insecure_channel(address.removeprefix("ray://")) as channel:
        call = channel.unary_unary(PROBES[client])
        try:
            call(b"", timeout=PROBE_S, metadata=headers)
        except grpc.RpcError as error:
            code = error.code()
            if code == grpc.StatusCode.UNAUTHENTICATED:
                raise KernelBlasterError(
                    f"{address}: the fleet refuses {'no token' if token is None else 'this token'}; give "
                    "the file of its token with --token FILE (docs/fleet.md)."
                ) from None
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise KernelBlasterError(
                    f"{address}: no fleet answers there; start one with `kernelblaster fleet start`."
                ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
