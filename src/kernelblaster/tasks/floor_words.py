"""Says what a task's floor counts and what it does not."""

from kernelblaster.records import Floor

BYTES_ALONE = (
    "bytes alone: no operations are counted, so a kernel that is bound by arithmetic, comparisons or "
    "steps that wait for each other may never come near"
)
BYTES_AND_PRODUCTS = (
    "bytes, and the operations of products, convolutions and attention; other arithmetic is not counted"
)


def counted(floor: Floor) -> str:
    """What a floor counts, in words."""
    return BYTES_AND_PRODUCTS if floor.operations else BYTES_ALONE
