"""Words for the user on what a task's floor (the least work that any implementation must do) counts and what
it does not."""

from kernelblaster.records import Floor

BYTES_ALONE = (
    "bytes alone: no operations are counted, so a kernel that is bound by arithmetic, comparisons or "
    "steps that wait for each other may never come near"
)
BYTES_AND_PRODUCTS = (
    "bytes, and the operations of products, convolutions and attention; other arithmetic is not counted"
)


def counted(floor: Floor) -> str:
    """Returns words for the user on what `floor` (the least work that any implementation must do) counts:
    only bytes, if it has no operations; otherwise bytes and the operations of products, convolutions and
    attention."""
    return BYTES_AND_PRODUCTS if floor.operations else BYTES_ALONE
