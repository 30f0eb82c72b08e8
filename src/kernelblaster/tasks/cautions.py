"""What the author of a candidate should know of a task that can be scored."""

from kernelblaster.records import Fitness


def cautions(fitness: Fitness) -> tuple[str, ...]:
    """What cannot be verified on a task, and where candidates must do as PyTorch does although it documents
    no such thing: sentences without a full stop, usually none."""
    said = []
    if fitness.insensitive:
        names = ", ".join(fitness.insensitive)
        said.append(
            f"the result is the same whatever {names} holds, so how a kernel uses it cannot be checked"
        )
    if fitness.open_choices:
        names = " and ".join(fitness.open_choices)
        said.append(
            f"PyTorch leaves open which of equal elements {names} takes, and more is computed from the "
            "indices: a kernel must take the elements that PyTorch takes, also where all are equal (return "
            "the indices as they are, and any of equal elements is right; or use sort(stable=True))"
        )
    if fitness.unordered:
        said.append("topk(sorted=False) leaves its order open: a kernel must give PyTorch's")
    return tuple(said)
