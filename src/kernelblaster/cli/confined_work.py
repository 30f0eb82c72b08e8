"""Confines the commands that search many tasks or use language models (`optimize`, `bench`, `ablate`). Finds
out what such a command needs access to: folders for models, the initial knowledge base, and the files of
tasks."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from kernelblaster import keeper
from kernelblaster.bench.jobs import Setup
from kernelblaster.cli.confined import confine_command, make_folder, still_there, store_of
from kernelblaster.cli.options import DeviceName
from kernelblaster.errors import StoreError
from kernelblaster.knowledge.initial import EMPTY, SEED
from kernelblaster.models.factory import answer_folder
from kernelblaster.models.names import FOLDERS
from kernelblaster.plain_text import one_line
from kernelblaster.policies.llm.roles import ROLES
from kernelblaster.search.model_use import ModelUse, check_models
from kernelblaster.store.run import first_event_of


def model_folders(use: ModelUse | None) -> tuple[list[Path], list[Path]]:
    """Returns (files and folders to read, folders to fill): what a confined command must reach so that the
    language models of `use` can be asked. Both are empty if `use` is None. Also does what must be done before
    the command is confined: checks that the models can be used, makes the folders to fill, and tells the
    keeper (the helper process that calls the models) the addresses of their servers."""
    if use is None:
        return [], []
    check_models(use)
    choice = use.choice
    names = [name for name in choice.table(ROLES).all if name.kind in FOLDERS]
    reads = [choice.prices, choice.replay, *(name.rest for name in names if name.kind == "replay")]
    filled = [choice.record, *(name.rest for name in names if name.kind == "handoff")]
    folders = [answer_folder(), *(Path(path) for path in filled if path)]
    for folder in folders:
        make_folder(folder)
    return [Path(path) for path in reads if path], folders


def claim_knowledge(start: str | None, folder: Path) -> None:
    """Allows the command, once it is confined, to read the knowledge base `start` (a path or URL), and to
    copy it into the bench's `folder`, by way of the keeper (the helper process of confined commands). Does
    nothing if `start` is None, "empty" or "seed", the one that is shipped."""
    if start not in (None, EMPTY, SEED):
        keeper.claim("knowledge", str(start))
        keeper.claim("file", str(folder / "knowledge.db"))


def confine_to_work(
    folder: Path,
    suites: Sequence[str],
    use: ModelUse | None,
    kind: str,
    device: DeviceName,
    network: str = "",
) -> None:
    """Confines this command (see `confine_command`) before it searches the tasks of a bench or an ablation in
    `folder`. Afterwards it can use only what the tasks `suites` and the models of `use` need. If `suites` is
    empty, the work in `folder` is continued, and its first recorded event says what is needed, under the key
    `kind`: "plan" for a bench, "ablation" for an ablation. `device` is the kind of device that the command
    may use; `network` says in words what needs the network, and is empty if nothing does."""
    begun = first_event_of(folder)
    plan = begun.data.get(kind) if begun and not suites else None
    if plan is not None:
        try:
            setup = Setup.model_validate(plan["setup"])
            suites, use, device = [one["path"] for one in plan["entries"]], setup.model_use, setup.device
            suites = still_there(suites)
            claim_knowledge(plan.get("start"), folder)
        except (KeyError, TypeError, ValidationError) as error:
            raise StoreError(f"{folder}: its plan cannot be read: {one_line(str(error))[:200]}") from error
    reads, fills = model_folders(use)
    make_folder(folder)
    network = network or store_of(folder)
    confine_command(suites, device=device, reads=reads, fills=(folder, *fills), network=network)
