"""Warnings for the authors of candidates on a task: what cannot be verified, and where PyTorch leaves a
result open."""

from kernelblaster.records import Fitness


def cautions(fitness: Fitness) -> tuple[str, ...]:
    """Returns the warnings for a task with this `fitness`, as sentences without a full stop; usually none.
    They say what cannot be verified, and where candidates must behave as PyTorch does in a case that its
    documentation leaves open."""
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
