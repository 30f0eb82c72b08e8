"""Connects this process to a Ray cluster, and checks beforehand that the cluster answers and accepts the
token."""

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
    """A context in which this process is connected to the Ray cluster at `address`. From a machine of the
    cluster, that is HOST:PORT of the head node; from outside, ray://HOST:PORT. Call `use_fleet_token` with
    the same `token` before this module is imported, because Ray reads the token when it is imported. Raises
    KernelBlasterError if nobody answers at the address, or the token is refused."""
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
    """Raises KernelBlasterError if no cluster answers at this address, or if it refuses the token. Call it
    before Ray connects: Ray itself would try for a long time, and not say why it fails."""
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
