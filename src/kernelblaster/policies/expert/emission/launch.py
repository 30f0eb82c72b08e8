"""`launched`, by which every emitter turns a kernel's body and its loop nest into a kernel with its
launch."""

from collections.abc import Collection, Sequence

from kernelblaster.policies.expert.cuda.source import Emitted, TemplateParameter, Variant
from kernelblaster.policies.expert.cuda.statements import Statement
from kernelblaster.policies.expert.cuda.terms import Term
from kernelblaster.policies.expert.emission.values import index_term
from kernelblaster.policies.expert.nest import Nest


def launched(
    nest: Nest,
    sizes: Collection[str],
    body: Sequence[Statement],
    *,
    blocks: Term | None = None,
    shared: int = 0,
    blocks_per_sm: int = 0,
    parameters: tuple[TemplateParameter, ...] = (),
    variants: tuple[Variant, ...] = (),
) -> Emitted:
    """The kernel with this `body`, whose grid and block sizes follow from `nest` (where its loops run);
    `blocks` replaces the grid size, as for persistent kernels. `sizes` are the tensor sizes known to the
    host, `shared` is in bytes; for the others see `Emitted`."""
    return Emitted(
        body=tuple(body),
        blocks=index_term(nest.blocks(), sizes) if blocks is None else blocks,
        threads=nest.threads,
        shared=shared,
        blocks_per_sm=blocks_per_sm,
        cluster=nest.cluster,
        remark=str(nest),
        parameters=parameters,
        variants=variants,
    )
