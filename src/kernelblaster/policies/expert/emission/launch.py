"""`launched`: adds to the body of an emitted kernel the parameters of its launch. Grid, cluster and block
size are computed from where the kernel's loops run on the GPU."""

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
    """The kernel with this `body` and the parameters of its launch. Block, cluster and grid size are computed
    from `nest`, which says where the kernel's loops run; `blocks` replaces the grid size, as for persistent
    kernels. `sizes` are the names of the tensor sizes, which the host knows; `shared` is the dynamic shared
    memory in bytes; `blocks_per_sm`, if not 0, goes into the launch bounds. With template `parameters`,
    `variants` are the instances that the host chooses from."""
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
