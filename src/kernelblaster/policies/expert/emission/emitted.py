"""What an emitter gives: a kernel's body, and how it is launched."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """A kernel template's arguments, the sizes at which it is launched with them, and its blocks then."""

    arguments: tuple[str, ...]
    condition: str
    blocks: str


@dataclass(frozen=True)
class Emitted:
    """A kernel's body, and the host expressions that launch it. `shared` are the bytes of shared memory
    that the launch gives it; `blocks_per_sm` how many of its blocks must fit on an SM, if that matters;
    `cluster` how many of them run together. A kernel with `parameters` is a template and is launched as the
    first of its `variants` that applies."""

    body: list[str]
    blocks: str
    threads: int
    helpers: tuple[str, ...] = ()
    shared: int = 0
    blocks_per_sm: int = 0
    cluster: int = 1
    parameters: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
