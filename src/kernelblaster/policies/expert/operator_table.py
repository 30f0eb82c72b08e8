"""Prints the table of docs/operators.md: every core operator of PyTorch, and what the expert makes of it.

python -m kernelblaster.policies.expert.operator_table
"""

import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterator

import torch

from kernelblaster.policies.expert import operators
from kernelblaster.policies.expert.builder import LOWERINGS
from kernelblaster.policies.expert.tracing import is_decomposed

KERNEL, PARTS = "a kernel or an index map", "made of others, and covered where these are"
TRAINING, RANDOM, NOTHING = "no: training only", "no: random", "nothing is to be done in inference mode"
SEEN_THROUGH = "no kernel is needed: a copy, an extent, or memory that others fill"
ANOTHER = "another operator is traced in its place"
COMPUTED_PLACES = "**no**: it writes to places that are computed"
BY_VALUES = "**no**: sizes, decisions or places depend on values"
MISSING = "**no**"
# Core operators that have neither a lowering nor a decomposition, and why.
WITHOUT = {
    **dict.fromkeys(
        (
            "_adaptive_avg_pool2d_backward",
            "avg_pool2d_backward",
            "convolution_backward",
            "max_pool2d_with_indices_backward",
        ),
        TRAINING,
    ),
    **dict.fromkeys(("rand", "randn", "randperm"), RANDOM),
    **dict.fromkeys(
        (
            "alias",
            "clone",
            "empty",
            "empty_strided",
            "sym_numel",
            "sym_storage_offset",
        ),
        SEEN_THROUGH,
    ),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "upsample_bilinear2d"), ANOTHER
    ),
    "native_dropout": NOTHING,
    **dict.fromkeys(("index_put", "scatter", "scatter_add", "scatter_reduce"), COMPUTED_PLACES),
    **dict.fromkeys(("_local_scalar_dense", "nonzero", "masked_scatter"), BY_VALUES),
    **dict.fromkeys(("_fft_c2r", "_fft_r2c"), f"{MISSING}: complex numbers"),
    "sort": f"{MISSING}: `topk` of one or two is",
    **dict.fromkeys(
        ("_cdist_forward", "_pdist_forward", "_embedding_bag", "grid_sampler_2d", "as_strided", "resize_"),
        MISSING,
    ),
}


def core_operators() -> Iterator[torch._ops.OpOverload]:
    """Yields the operators of aten that PyTorch calls core, of which all others are made, with their
    overloads; those that write into a given tensor (`out`) are left out."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, of = name.partition("::")
        packet, _, overload = of.partition(".")
        if namespace == "aten" and not overload.endswith("out"):
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in operator.tags:
                yield operator


def made_of(operator: torch._ops.OpOverload) -> str:
    """Returns in words what the expert makes of an operator. Raises KeyError for a core operator that has
    neither a kernel nor a decomposition and is not in WITHOUT."""
    name = str(operator).removeprefix("aten.")
    if name in LOWERINGS:
        return KERNEL
    return PARTS if is_decomposed(operator) else WITHOUT[name.partition(".")[0]]


def operator_table() -> str:
    """Returns a Markdown table of the core operators, and below it the operators beyond these that have
    kernels of their own."""
    for module in pkgutil.iter_modules(operators.__path__):
        importlib.import_module(f"{operators.__name__}.{module.name}")
    overloads: dict[tuple[str, str], list[str]] = defaultdict(list)
    for operator in core_operators():
        name, _, overload = str(operator).removeprefix("aten.").partition(".")
        overloads[name, made_of(operator)].append(overload)
    lines = ["| operator | overloads | covered by |", "|---|---|---|"]
    lines += [f"| `{name}` | {', '.join(found)} | {made} |" for (name, made), found in overloads.items()]
    core = {name for name, _ in overloads}
    further = sorted({name.partition(".")[0] for name in LOWERINGS} - core)
    return "\n".join(
        [*lines, "", f"Kernels of their own beyond these: {', '.join(f'`{n}`' for n in further)}."]
    )


if __name__ == "__main__":
    print(operator_table())
