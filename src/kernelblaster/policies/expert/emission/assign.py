"""The statement that stores a value."""

from kernelblaster.policies.expert.emission.render import Renderer
from kernelblaster.policies.expert.plan import Plan, Store
from kernelblaster.tasks.header import C_TYPES


def assign(store: Store, plan: Plan, render: Renderer) -> str:
    return f"{render.place(store.buffer, store.position)} = {stored(store, plan, render)};"


def stored(store: Store, plan: Plan, render: Renderer) -> str:
    """The value in the type of its buffer: half precisions are converted, all else converts itself."""
    kind = C_TYPES[plan.buffers[store.buffer].dtype]
    value = render.expression(store.value)
    return f"({kind})({value})" if kind.startswith("__") else value
