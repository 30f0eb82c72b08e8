"""Techniques that are of no use for a kernel that somebody else wrote."""

import pytest

import kernelblaster as kb
from kernelblaster.policies.left_out import KernelFacts
from kernelblaster.records import Task

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return BODY
def get_inputs(): return [torch.randn(64, 64)]
def get_init_inputs(): return []
"""
PLAIN = """
__global__ void other(float4* y) { __shared__ float4 tile[32]; }
__device__ float shifted(const float* x, int i) { return x[i] + 1.0f; }  // one float4* would be better
__global__ void k(float* y, const float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = shifted(x, i);
}
"""
ELABORATE = """
__device__ float sum(float v) { return v + __shfl_xor_sync(~0u, v, 1); }
__global__ void k(float* y, const float* x, int n) {
  __shared__ float tile[32];
  #pragma unroll
  for (int i = threadIdx.x; i < n; i += blockDim.x * gridDim.x) tile[i] = sum(__expf(__ldcs(x + i)));
  reinterpret_cast<float4*>(y)[0] = make_float4(0, 0, 0, 0);
}
"""


BODIES = {
    "sort": "torch.sort(x, dim=1)[0]",
    "product": "x @ x",
    "convolution": "torch.conv1d(x[:, None], x[:, None])",
}


@pytest.fixture(scope="module", params=BODIES)
def kind(request: pytest.FixtureRequest) -> tuple[str, Task]:
    return request.param, kb.load_task(TASK.replace("BODY", BODIES[request.param]))


def test_what_the_task_cannot_use(kind: tuple[str, Task]) -> None:
    name, task = kind
    facts = KernelFacts(task, PLAIN, "k", 2)
    nothing = {one: facts.why_not(one) for one in ("implicit_matrix_product", "split_k", "online_attention")}
    useful = {"sort": set(), "product": {"split_k"}, "convolution": {"implicit_matrix_product", "split_k"}}
    assert {one for one, why in nothing.items() if why is None} == useful[name]
    assert facts.why_not("kernel_fusion") is None
    assert "one launch" in str(KernelFacts(task, PLAIN, "k", 1).why_not("kernel_fusion"))


def test_what_the_kernel_has_and_what_it_lacks(kind: tuple[str, Task]) -> None:
    plain, elaborate = (KernelFacts(kind[1], source, "k", 1) for source in (PLAIN, ELABORATE))
    has = ("vectorized_memory_access", "grid_stride", "cache_hints")
    assert [plain.why_not(one) for one in has] == [None] * len(has), (
        "another kernel and comments do not count"
    )
    for one in (*has, "unrolling", "fast_math", "warp_shuffle_reduction"):
        assert elaborate.why_not(one) == "in the source already", one
    lacks = ("unrolling", "bank_conflict_padding", "privatized_accumulation", "barrier_reduction")
    assert all("nothing" in str(plain.why_not(one)) for one in lacks)
    assert elaborate.why_not("bank_conflict_padding") is None
    assert plain.why_not("block_shape") is None and plain.why_not("an_agents_own") is None


def test_what_was_applied(kind: tuple[str, Task]) -> None:
    done = ("block_shape", "an_agents_own", "grid_stride + thread_coarsening")
    facts = KernelFacts(kind[1], PLAIN, "k", 1, done)
    for one in ("block_shape", "an_agents_own", "grid_stride", "thread_coarsening"):
        assert facts.why_not(one) == "applied already"
    assert facts.why_not("block_shape + grid_stride") is not None
    assert facts.why_not("block_shape + shared_memory_tiling") is None
    assert facts.why_not("block_shape + kernel_fusion") is not None


def test_a_kernel_that_the_source_does_not_name(kind: tuple[str, Task]) -> None:
    assert KernelFacts(kind[1], ELABORATE, "made_by_a_macro", 1).why_not("unrolling") is not None
