"""Emits pointwise kernels. A thread has one element, or vectors of neighbouring elements; it loads and stores
each vector with one instruction."""

from dataclasses import replace

from kernelblaster.policies.expert.cuda.source import Emitted
from kernelblaster.policies.expert.cuda.statements import (
    Declaration,
    Declarator,
    Do,
    If,
    Return,
    Statement,
    assign,
    const,
    declare,
    loop,
    unrolled,
    when,
)
from kernelblaster.policies.expert.cuda.terms import (
    BLOCK,
    BLOCK_THREADS,
    INT64,
    THREAD,
    CudaType,
    Given,
    Local,
    Term,
    cast,
    read,
    vector_pointer,
)
from kernelblaster.policies.expert.emission.functions import pack_type, read_once, write_once
from kernelblaster.policies.expert.emission.launch import launched
from kernelblaster.policies.expert.emission.places import count, local, unravel
from kernelblaster.policies.expert.emission.stores import store_statement
from kernelblaster.policies.expert.emission.values import Values, c_type, values_of
from kernelblaster.policies.expert.flat_access import variables, vector_reads, whole_position
from kernelblaster.policies.expert.kernel import Kernel
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.pointwise import ElementPerThread, FlatVectors

SCHEDULES = (ElementPerThread, FlatVectors)
NUMBER, K, LANE, START, FIRST = local("i", "k", "lane", "start", "first")


def emit(kernel: Kernel, plan: Plan) -> Emitted:
    schedule = kernel.schedule
    total = count((axis.extent for axis in kernel.axes), plan.sizes[0])
    if isinstance(schedule, FlatVectors):
        each = schedule.threads * schedule.vector_width * schedule.coarsening
        body = _vectors(kernel, schedule, plan, total, each)
        return launched(schedule.nest(kernel.axes), plan.sizes[0], body)
    assert isinstance(schedule, ElementPerThread)
    body = [
        const(INT64, "i", BLOCK * cast(INT64, BLOCK_THREADS) + THREAD),
        when(NUMBER >= total, Return()),
        *_element(kernel, plan, values_of(plan)),
    ]
    return launched(schedule.nest(kernel.axes), plan.sizes[0], body)


def _element(kernel: Kernel, plan: Plan, values: Values) -> list[Statement]:
    """Statements that compute one element of every result of the kernel and store it: that with the linear
    index `i`. `values` writes expressions as C++."""
    whole = whole_position(kernel, plan)
    values = replace(values, whole=whole)
    found = unravel("i", kernel.axes, plan.sizes[0], variables(kernel, whole))
    return found + [store_statement(store, plan, values) for store in kernel.stores]


def _vectors(kernel: Kernel, schedule: FlatVectors, plan: Plan, total: Term, each: int) -> list[Statement]:
    """Statements of the kernel where a thread moves `schedule.coarsening` vectors: it loads all of them, then
    computes and stores. `total` is the number of elements of a result, `each` that of a block; in a last
    block that is not full, threads do single elements."""
    values = replace(values_of(plan), whole_element=lambda buffer: Local(f"{buffer}_pack").field("at")[LANE])
    together = schedule.threads * schedule.coarsening

    def pack(name: str) -> CudaType:
        return pack_type(c_type(plan.buffers[name].dtype), schedule.vector_width)

    def place(name: str, *, const_: bool) -> Term:
        return vector_pointer(pack(name), Given(name), const=const_) + START + K * schedule.threads

    arrays, reads, named, packs, writes = [], [], [], [], []
    for name in vector_reads(kernel, plan):
        vectors = Local(f"{name}_packs")
        arrays.append(declare(pack(name), vectors.name, None, schedule.coarsening))
        source = place(name, const_=True)
        reads.append(assign(vectors[K], read_once(source) if schedule.streaming else read(source)))
        alias = Declarator(f"{name}_pack", vectors[K])
        named.append(Declaration(CudaType("auto&"), (alias,), "const"))
    for name in kernel.writes:
        own = Local(f"{name}_pack")
        packs.append(declare(pack(name), own.name))
        to = place(name, const_=False)
        writes.append(Do(write_once(to, own)) if schedule.streaming else assign(read(to), own))
    computed = unrolled("lane", schedule.vector_width, _element(kernel, plan, values))
    whole: list[Statement] = [
        const(INT64, "start", BLOCK * cast(INT64, together) + THREAD),
        *arrays,
        unrolled("k", schedule.coarsening, reads),
        unrolled("k", schedule.coarsening, [*named, *packs, computed, *writes]),
    ]
    single = _element(kernel, plan, values_of(plan))
    rest = loop("i", FIRST + THREAD, total, single, step=schedule.threads, type_=INT64)
    return [
        const(INT64, "first", BLOCK * cast(INT64, each)),
        If(FIRST + each <= total, tuple(whole), (rest,)),
    ]
