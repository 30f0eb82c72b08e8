"""`launched`: completes an emitted kernel by the parameters of its launch. Grid, cluster and block size
follow from where the kernel's loops run on the GPU (nest.py)."""

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
    cooperative: bool = False,
    parameters: tuple[TemplateParameter, ...] = (),
    variants: tuple[Variant, ...] = (),
) -> Emitted:
    """Returns the emitted kernel with the statements `body` and the parameters of its launch. Block, cluster
    and grid size follow from `nest`, which says where the kernel's loops run; if `blocks` is given, it is the
    grid size instead, as for persistent kernels. `sizes` are the names of the tensor sizes, which the host
    knows; `shared` is the dynamic shared memory of a block in bytes; `blocks_per_sm`, if not 0, goes into the
    launch bounds; with `cooperative`, all blocks must be resident at once. With template `parameters`, the
    host launches the first of `variants` whose condition holds."""
    return Emitted(
        body=tuple(body),
        blocks=index_term(nest.blocks(), sizes) if blocks is None else blocks,
        threads=nest.threads,
        shared=shared,
        blocks_per_sm=blocks_per_sm,
        cluster=nest.cluster,
        cooperative=cooperative,
        remark=str(nest),
        parameters=parameters,
        variants=variants,
    )
