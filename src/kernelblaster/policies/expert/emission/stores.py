"""Writes the C++ statement by which a kernel stores a computed value to a tensor; used by all emitters."""

from kernelblaster.policies.expert.cuda.statements import Assignment
from kernelblaster.policies.expert.cuda.terms import Term, cast
from kernelblaster.policies.expert.emission.values import Values, c_type
from kernelblaster.policies.expert.kernel import Store
from kernelblaster.policies.expert.plan import Plan


def store_statement(store: Store, plan: Plan, values: Values) -> Assignment:
    return Assignment(values.place(store.buffer, store.position), stored_value(store, plan, values))


def stored_value(store: Store, plan: Plan, values: Values) -> Term:
    """Returns the value of `store`, a store of a kernel of `plan`, as a C++ expression, which `values`
    writes. It is cast to the type of the buffer if that is a half precision; to other types the C++
    assignment converts it."""
    dtype = plan.buffers[store.buffer].dtype
    value = values.expression(store.value)
    return cast(c_type(dtype), value) if dtype in ("float16", "bfloat16") else value
