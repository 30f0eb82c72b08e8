"""The statement that stores a value."""

from kernelblaster.policies.expert.cuda.statements import Assignment
from kernelblaster.policies.expert.cuda.terms import Term, cast
from kernelblaster.policies.expert.emission.values import Values, c_type
from kernelblaster.policies.expert.kernel import Store
from kernelblaster.policies.expert.plan import Plan


def store_statement(store: Store, plan: Plan, values: Values) -> Assignment:
    return Assignment(values.place(store.buffer, store.position), stored_value(store, plan, values))


def stored_value(store: Store, plan: Plan, values: Values) -> Term:
    """The value in the type of its buffer: half precisions are converted, all else converts itself."""
    dtype = plan.buffers[store.buffer].dtype
    value = values.expression(store.value)
    return cast(c_type(dtype), value) if dtype in ("float16", "bfloat16") else value
