"""Shows exemplars (sources of the best candidates of earlier searches) in prompts, as examples."""

from collections.abc import Sequence
from pathlib import PurePath

from kernelblaster.knowledge.retrieval import Neighbourhood, RetrievedExemplar
from kernelblaster.models.tokens import tokens_of
from kernelblaster.policies.llm.data import data, one_line
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.source import ENTRY, parts_of

MOST = 2  # exemplars in one prompt
TOKENS = 2_000  # of one; where the whole source takes more, its kernels alone
IMPORTANCE = 34  # of the first; less for the second


def exemplar_pieces(
    around: Neighbourhood, family: str | None, techniques: Sequence[str], source: str
) -> list[Piece]:
    """Returns texts for a prompt on up to two exemplars (sources of the best candidates of earlier searches),
    each with where it comes from. `around` finds them in the knowledge base; those come first that have most
    in common with the kernel in question: its `family` (kind of computation; None: unknown), its bottleneck,
    and the `techniques` to apply. An exemplar equal to `source`, the candidate's own source, is never among
    them. A long prompt may leave out any of them."""
    pieces: list[Piece] = []
    for one in around.exemplars(family, techniques, (source,)):
        text = _text(one)
        if text and len(pieces) < MOST:
            pieces.append(Piece(text, IMPORTANCE - len(pieces)))
    return pieces


def _text(one: RetrievedExemplar) -> str:
    """The source of the exemplar `one` (a best candidate of an earlier search) quoted as data, under a line
    on what it is; only its kernels if the whole takes more than TOKENS tokens, and empty if these do too."""
    exemplar = one.exemplar
    code = exemplar.source
    if tokens_of(code) > TOKENS:
        code = "".join(part.text for part in parts_of(code) if part.name is not None and part.name != ENTRY)
    if tokens_of(code) > TOKENS:
        return ""
    about = (
        f"{one_line(_task_name(exemplar.task), 80)}, {exemplar.reach:.2f} of its floor's speed on "
        f"{one_line(exemplar.architecture, 40)}, from {one_line(one.state, 80)} by "
        f"{one_line(', '.join(exemplar.techniques), 200)}"
    )
    summary = f" {one_line(exemplar.summary, 300)}" if exemplar.summary else ""
    return f"{about}.{summary}\n{data('exemplar', code)}"


def _task_name(task: str) -> str:
    """A task's name as it is shown to a model: for an absolute path only the file's stem, otherwise the name
    itself."""
    path = PurePath(task)
    return path.stem if path.is_absolute() else task
