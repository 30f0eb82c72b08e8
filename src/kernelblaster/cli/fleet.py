"""`kernelblaster fleet start|stop|status|token`: a fleet, the devices of one or several machines that judge
candidates together."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import FleetOptions, JsonOption
from kernelblaster.cli.show import out
from kernelblaster.fleet.address import CLIENT_PORT, HEAD_PORT, FleetAddress

if TYPE_CHECKING:
    from kernelblaster.fleet.status import NodeStatus

app = typer.Typer(
    help="Machines that judge together: start, stop and look at them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
TokenOption = Annotated[Path | None, typer.Option("--token", help="The file of the token; else your own.")]


@app.command()
def start(
    join: Annotated[
        str | None, typer.Option(help="HOST:PORT of the fleet to join; else this machine leads a new one.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address of this machine under which the others reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where other machines join a new fleet.")] = HEAD_PORT,
    client_port: Annotated[int, typer.Option(help="Where ray://HOST:PORT is answered.")] = CLIENT_PORT,
    ptx_machines: Annotated[
        int | None, typer.Option(help="PTX machines that it offers; one for every two cores.", min=0)
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores for compilers; all of them.", min=1)] = None,
    token: TokenOption = None,
    json_: JsonOption = False,
) -> None:
    """Start a node of a fleet on this machine: the first one, or one that joins it.

    The node keeps running when this command ends, until `kernelblaster fleet stop`. Other machines need the
    fleet's token to reach it; if other machines are to join, make the token before (`kernelblaster fleet
    token`).
    """
    from kernelblaster.fleet.node import NodePlan, start_node

    node = start_node(NodePlan(join, host, port, client_port, token, ptx_machines, cores))
    if json_:
        print(json.dumps(node.model_dump()))
        return
    out.print(f"a node of the fleet {node.address} runs here (process {node.pid})", highlight=False)
    if join is None:
        out.print(
            f"  use it      kernelblaster bench SUITE --fleet auto, or --fleet ray://{host}:{client_port}"
        )
        out.print(
            f"  join it     kernelblaster fleet start --join {node.address} --host ITS-ADDRESS",
            soft_wrap=True,
        )
        out.print(f"  its token   {node.token}: copy it to the same place on the others", soft_wrap=True)


@app.command()
def stop(json_: JsonOption = False) -> None:
    """Stop the fleet's node that runs on this machine, with all its processes."""
    from kernelblaster.fleet.node import stop_node

    stopped = stop_node()
    if json_:
        print(json.dumps({"stopped": stopped}))
    else:
        out.print("the node was ended" if stopped else "no node runs here", highlight=False)


@app.command()
@grouped
def status(on: FleetOptions, json_: JsonOption = False) -> None:
    """Show the nodes of a fleet, their devices, what each device does, and how healthy the GPUs are.

    Without --fleet it shows the fleet that runs on this machine; if none does, this machine alone.
    """
    from kernelblaster.fleet.opening import FleetChoice, open_machines

    choice = on.choice() or FleetChoice(FleetAddress("auto"), on.token)
    with open_machines(choice) as machines:
        nodes = machines.status()
    if json_:
        print(json.dumps([_as_dict(node) for node in nodes], indent=1))
        return
    for node in nodes:
        _show(node)


@app.command()
def token(path: TokenOption = None, json_: JsonOption = False) -> None:
    """Make the token of a fleet, unless there is one, and say in which file it is.

    Copy that file to every machine of the fleet, and to the machines that use the fleet. Whoever has the
    token can run programs on all machines of the fleet.
    """
    from kernelblaster.fleet.token import make_token, read_token, token_file

    file = token_file(path)
    new = make_token(file)
    read_token(file)  # raises if it cannot be used
    if json_:
        print(json.dumps({"file": str(file), "new": new}))
    else:
        out.print(f"{file}{' (new)' if new else ''}", highlight=False, soft_wrap=True)


def _show(node: "NodeStatus") -> None:
    """Prints one machine of the fleet for people: address, whether it is alive, cores, its GPUs with their
    health, and devices in use."""
    from kernelblaster.fleet.status import device_line

    state = "alive" if node.alive else "lost"
    offers = f"{node.cores} cores, {node.machines} PTX machines" if node.alive else ""
    out.print(f"{node.address}  {state}  {offers}", highlight=False)
    if node.alive and node.gpus is None:
        out.print("  its GPUs could not be asked for", highlight=False)
    for gpu in node.gpus or ():
        out.print(f"  {gpu.name}: {gpu.health}", highlight=False, markup=False)
    for device in node.devices:
        out.print(f"  {device_line(device)}", highlight=False, markup=False, soft_wrap=True)


def _as_dict(node: "NodeStatus") -> dict[str, Any]:
    """One machine of the fleet as JSON data, for `--json`; "gpus" is None if the machine could not be asked
    for them."""
    gpus = None if node.gpus is None else [{"name": g.name} | g.health.model_dump() for g in node.gpus]
    return {
        "address": node.address,
        "alive": node.alive,
        "cores": node.cores,
        "ptx_machines": node.machines,
        "gpus": gpus,
        "devices": [asdict(device) for device in node.devices],
    }
