"""Finds outputs that are indices for which PyTorch leaves a choice, because several elements are equal (topk,
sort, kthvalue, median), and tells whether other indices are as right as PyTorch's.

`OpenChoices` watches the operators of one run of a task's module. If an output comes from such an operator,
and only views, copies or casts to other integer types follow, it has an `OpenChoice`. An index in it is right
if it holds an equal element of the same row, and no other index of that row is the same. If a module computes
something else from such indices (as by `gather`), the results must be those of PyTorch's own choice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

# As documented: "the indices of tied elements are not guaranteed" and the like. `max`, `min`, `argmax` and
# `argmin` are not among them: they give the first of equal elements.
OPEN = frozenset({"topk", "sort", "kthvalue", "median", "nanmedian"})
COPIES = frozenset({"clone", "_to_copy", "contiguous", "flip"})
INDEX_TYPES = (torch.int32, torch.int64)  # others may be too small for an index
Key = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


@dataclass(frozen=True)
class OpenChoice:
    """One output whose elements are indices into rows of `values`, a flat tensor. For each element of the
    output, flattened: `starts` has where its row begins in `values`, and `right` PyTorch's index. The
    elements of a row are `stride` apart, and there are `extent` of them."""

    values: torch.Tensor
    starts: torch.Tensor
    right: torch.Tensor
    stride: int
    extent: int


@dataclass(frozen=True)
class _Origin:
    """Where some indices come from, so that it can be checked whether others would be as right: the
    operator's name, the tensor `source` in which it chose along the dimension `dim`, and `starts`, where the
    row of each index begins in the flat `source`."""

    operator: str
    source: torch.Tensor
    dim: int
    starts: torch.Tensor


@dataclass(frozen=True)
class _Indices:
    """A tensor of indices seen in the run: `slots` has the same shape, and tells for each element which
    element of the operator's own result it is. `held` keeps its memory from being used again."""

    held: torch.Tensor
    slots: torch.Tensor
    origin: _Origin


class OpenChoices(TorchDispatchMode):
    """A context that watches the PyTorch operators that run inside it, for indices that may be chosen among
    equal elements. Afterwards `of` tells which outputs consist of such indices. `used` names the operators
    (such as "topk") from whose indices the module has computed something else. `unordered` is True if a topk
    did not sort, so that the order of its results is open too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.used: set[str] = set()
        self.unordered = False
        self._seen: dict[Key, _Indices] = {}

    def of(self, outputs: Sequence[torch.Tensor]) -> list[OpenChoice | None]:
        """Returns for each of `outputs`, which the watched run returned, an `OpenChoice` if it consists of
        indices that may be chosen among equal elements, else None."""
        return [self._choice(output) for output in outputs]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        self._drop_written(func, args, kwargs)
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        given = [one for one in _tensors((args, kwargs)) if _key(one) in self._seen]
        if given:
            self._follow(func, name, args, kwargs, result)
        if name in OPEN:
            self._begin(func, name, args, kwargs, result)
        return result

    def _begin(self, func, name, args, kwargs, result) -> None:  # type: ignore[no-untyped-def]
        """Notes the indices that an operator of OPEN gave."""
        given = {one.name: one.default_value for one in func._schema.arguments if one.has_default_value()}
        given |= dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
        source = given["self"]
        if "dim" not in given or given.get("stable") or not isinstance(result, tuple) or not source.dim():
            return
        self.unordered |= given.get("sorted") is False
        indices, dim = result[1], given["dim"] % source.dim()
        if not indices.numel():
            return
        starts = _starts(source, dim, indices)
        slots = torch.empty_like(indices)
        slots.copy_(torch.arange(indices.numel(), device=indices.device).view(indices.shape))
        self._seen[_key(indices)] = _Indices(indices, slots, _Origin(name, source, dim, starts))

    def _follow(self, func, name, args, kwargs, result) -> None:  # type: ignore[no-untyped-def]
        """Notes what an operator made of indices: the same ones elsewhere, or something else."""
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        known = self._seen.get(_key(first)) if first is not None else None
        moves = (func.is_view and name != "as_strided") or name in COPIES
        results = [result] if isinstance(result, torch.Tensor) else list(_tensors(result))
        if known is None or not moves or any(one.dtype not in INDEX_TYPES for one in results):
            for one in _tensors((args, kwargs)):
                if _key(one) in self._seen:
                    self.used.add(self._seen[_key(one)].origin.operator)
            return
        plain = {word: value for word, value in kwargs.items() if word != "dtype"}
        slots = func(known.slots, *args[1:], **plain)
        for one, slot in zip(results, [slots] if isinstance(slots, torch.Tensor) else slots, strict=True):
            if one.numel():
                self._seen[_key(one)] = _Indices(one, slot, known.origin)

    def _drop_written(self, func, args, kwargs) -> None:  # type: ignore[no-untyped-def]
        """Forgets all indices that an operator writes to, or into whose source it writes: from then on, they
        are no more than what the module computes from them."""
        names = [one for one in func._schema.arguments if one.alias_info and one.alias_info.is_write]
        if not names or not self._seen:
            return
        every = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
        written = {_storage(one) for name in names for one in _tensors(every.get(name.name))}
        for key, one in list(self._seen.items()):
            if _storage(one.held) in written or _storage(one.origin.source) in written:
                self.used.add(self._seen.pop(key).origin.operator)

    def _choice(self, output: torch.Tensor) -> OpenChoice | None:
        known = self._seen.get(_key(output))
        if known is None:
            return None
        slots, origin = known.slots.reshape(-1), known.origin
        if len(torch.unique(slots)) != slots.numel():
            self.used.add(origin.operator)  # an index is there twice, and must be the same in both
            return None
        shape = origin.source.shape
        return OpenChoice(
            values=origin.source.reshape(-1),
            starts=origin.starts[slots],
            right=output.reshape(-1).to(torch.int64),
            stride=shape[origin.dim + 1 :].numel(),
            extent=shape[origin.dim],
        )


def settled(output: torch.Tensor, choice: OpenChoice | None) -> torch.Tensor:
    """Makes an output that consists of indices ready for an element-by-element comparison, where PyTorch
    leaves open which of several equal elements is chosen. `choice` has the indices that PyTorch chose in the
    reference run, and the elements from which it chose. An index in `output` that is as right as PyTorch's is
    replaced by PyTorch's; all others stay as they are. It is as right if it is in range, its element is equal
    to the one that PyTorch chose (NaN equals NaN), and it occurs only once in its row. Returns a new tensor,
    or `output` itself if it needs no change or `choice` is None."""
    if choice is None:
        return output
    values, right = choice.values, choice.right
    mine = output.reshape(-1).to(right.device).to(torch.int64)
    if torch.equal(mine, right):
        return output
    inside = (mine >= 0) & (mine < choice.extent)
    places = choice.starts + mine.clamp(0, choice.extent - 1) * choice.stride
    chosen, wanted = values[places], values[choice.starts + right * choice.stride]
    same = (chosen == wanted) | (chosen.isnan() & wanted.isnan())
    once = torch.zeros_like(inside)
    _, which, counts = torch.unique(places[inside], return_inverse=True, return_counts=True)
    once[inside] = counts[which] == 1
    return torch.where(same & once, right, mine).to(output.dtype).to(output.device).reshape(output.shape)


def _starts(source: torch.Tensor, dim: int, indices: torch.Tensor) -> torch.Tensor:
    """For each of `indices`, flattened, where its row begins in the flat `source`; rows lie along `dim`."""
    outer, extent, inner = source.shape[:dim].numel(), source.shape[dim], source.shape[dim + 1 :].numel()
    first = torch.arange(outer, device=source.device)[:, None] * (extent * inner)
    starts = (first + torch.arange(inner, device=source.device)).view(outer, 1, inner)
    return starts.expand(outer, indices.numel() // (outer * inner), inner).reshape(-1)


def _key(tensor: torch.Tensor) -> Key:
    """What tells tensors apart while their memory is in use: two with equal keys hold the same."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))
