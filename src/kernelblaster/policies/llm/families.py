"""Finds the family (kind of computation, such as `scan`) of a PyTorch task whose kernels a model writes, from
the operators in its source."""

import re
from collections.abc import Collection, Iterator

from kernelblaster.records import Task

# The first that occurs names the family: from what shapes a kernel most to what most tasks have.
FAMILIES = (
    ("scan", r"cumsum|cumprod|cummax|cummin|logcumsumexp|associative_scan"),
    ("recurrence", r"\b(?:lstm|gru|rnn)(?:cell)?\b|for \w+ in range"),
    ("sort", r"\b(?:sort|argsort|topk|kthvalue|median|unique|searchsorted)\b"),
    ("attention", r"attention|\battn\b|transformer"),
    ("convolution", r"conv\w*\d?d|unfold|fold\b"),
    ("pooling", r"\w*pool\w*\d?d|interpolate|upsample"),
    ("scatter", r"scatter|index_add|index_put|bincount|histc|one_hot"),
    ("gather", r"\bgather\b|embedding|index_select|take_along_dim"),
    ("matrix_product", r"linear|matmul|\bb?mm\b|einsum|addb?mm|tensordot|bilinear|\w\s*@\s*\w"),
    ("row_reduction", r"softmax|norm|logsumexp|\bmean\b|\bsum\b|\bvar\b|\bstd\b|\bamax\b|\bmax\b|\bmin\b"),
)
PRODUCTS = {"matrix_product", "convolution", "attention", "recurrence"}
# Techniques that only kernels of some families can use.
MADE_FOR = {
    "tensor_core_utilization": PRODUCTS,
    "split_operand_tensor_cores": PRODUCTS,
    "warpgroup_matrix_multiply": PRODUCTS,
    "split_k": PRODUCTS,
    "implicit_matrix_product": {"convolution"},
    "interleaved_phases": {"convolution"},
    "online_attention": {"attention"},
    "tf32_operands": {"convolution"},
    "scaled_half_operands": {"convolution"},
    "window_register_blocking": {"convolution", "pooling"},
    "parallel_scan": {"scan"},
    "persistent_recurrence": {"recurrence"},
}


def family_of(task: Task) -> str | None:
    """Returns the family (kind of computation) of a PyTorch task, found from the operators in its source:
    `scan`, `recurrence`, `sort`, `attention`, `convolution` and so on (FAMILIES); the first in this order, if
    several occur, and `pointwise` if none does. None for a task that is a CUDA source."""
    if task.kind != "module":
        return None
    return next(_families(task), "pointwise")


def may_use(task: Task, technique: str) -> bool:
    """True if a technique may fit a task: if it is made for certain families (kinds of computation), the
    task's source must have an operator of one of them. Always True for techniques that are made for no
    particular family, and for tasks that are CUDA sources."""
    made_for = MADE_FOR.get(technique)
    return made_for is None or may_have(task, made_for)


def may_have(task: Task, families: Collection[str]) -> bool:
    """True if a task may compute something of one of these families (kinds of computation): its source has
    an operator of one. Always True for tasks that are CUDA sources."""
    return task.kind != "module" or not set(families).isdisjoint(_families(task))


def _families(task: Task) -> Iterator[str]:
    """The families (kinds of computation) of all operators in a module's source, in the order of FAMILIES;
    may be empty."""
    text = re.sub(r"#[^\n]*|\"\"\".*?\"\"\"", "", task.source, flags=re.DOTALL)
    text = re.sub(r"\bmode\s*=\s*[\"']\w+[\"']", "", text)  # "bilinear" is no product
    text = text.partition("def get_inputs")[0]
    return (name for name, words in FAMILIES if re.search(words, text, re.IGNORECASE))
