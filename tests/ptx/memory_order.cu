// Pairs of kernels: one whose threads rely on an order that nothing gives them, marked FAULT at the line that must be
// named, and a right one. HONEST kernels have no twin: they order their threads in ways that must be understood.
#include <cooperative_groups.h>

#include <cuda/atomic>
namespace cg = cooperative_groups;

#define KERNEL extern "C" __global__ void

__device__ unsigned arrived, sense, ticket, other;
__device__ float partial[1024];
__device__ float total;

// ---- Lanes of one warp ------------------------------------------------------------------------------------

KERNEL exchange_bad(float* out, const float* x, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = tile[threadIdx.x ^ 1];  // FAULT exchange
}
KERNEL exchange_good(float* out, const float* x, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

// A barrier for two warps, to which four come: any two of them go on together.
KERNEL half_barrier_bad(float* out, const float* x, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = tile[threadIdx.x ^ 32] + tile[threadIdx.x ^ 64];  // FAULT half_barrier
}
KERNEL half_barrier_good(float* out, const float* x, int n) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("bar.sync %0, 64;" ::"r"(1 + threadIdx.x / 64) : "memory");
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}

KERNEL lockstep_bad(float* out, const float* x, int n) {
  __shared__ volatile float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) {
    tile[threadIdx.x] += tile[threadIdx.x + 32];
    for (int o = 16; o > 0; o /= 2) tile[threadIdx.x] += tile[threadIdx.x + o];  // FAULT lockstep
    if (threadIdx.x == 0) out[0] = tile[0];
  }
}
KERNEL lockstep_good(float* out, const float* x, int n) {
  __shared__ volatile float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 32) {
    float sum = tile[threadIdx.x] + tile[threadIdx.x + 32];
    for (int o = 16; o > 0; o /= 2) {
      tile[threadIdx.x] = sum;
      __syncwarp();
      sum += tile[(threadIdx.x + o) % 32];
      __syncwarp();
    }
    if (threadIdx.x == 0) out[0] = sum;
  }
}

KERNEL overtaken_bad(float* out, const float* x, int n) {
  __shared__ float best;
  if (threadIdx.x == 0) best = x[0];
  __syncwarp();
  float seen = best;
  if (threadIdx.x == 7) best = seen + 1;  // FAULT overtaken
  out[threadIdx.x] = seen;
}
KERNEL overtaken_good(float* out, const float* x, int n) {
  __shared__ float best;
  if (threadIdx.x == 0) best = x[0];
  __syncwarp();
  float seen = best;
  __syncwarp();
  if (threadIdx.x == 7) best = seen + 1;
  out[threadIdx.x] = seen;
}

KERNEL through_memory_bad(float* out, const float* x, int n) {
  out[threadIdx.x] = x[threadIdx.x];
  float next = ((volatile float*)out)[(threadIdx.x + 1) % 32];  // FAULT through_memory
  if (next > 1e30f) out[threadIdx.x] = 0;
}
KERNEL through_memory_good(float* out, const float* x, int n) {
  out[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  float next = ((volatile float*)out)[(threadIdx.x + 1) % 32];
  if (next > 1e30f) out[threadIdx.x] = 0;
}

KERNEL tiles_bad(float* out, const float* x, int n) {
  __shared__ float tile[32];
  auto half = cg::tiled_partition<16>(cg::this_thread_block());
  tile[threadIdx.x] = x[threadIdx.x];
  half.sync();
  out[threadIdx.x] = tile[threadIdx.x ^ 16];  // FAULT tiles
}
KERNEL tiles_good(float* out, const float* x, int n) {
  __shared__ float tile[32];
  auto half = cg::tiled_partition<16>(cg::this_thread_block());
  tile[threadIdx.x] = x[threadIdx.x];
  half.sync();
  out[threadIdx.x] = tile[threadIdx.x ^ 8];
}

// Lanes meet from two branches.
KERNEL branches_bad(float* out, const float* x, int n) {
  __shared__ float value[32];
  if (threadIdx.x % 2) {
    value[threadIdx.x] = x[threadIdx.x];
  } else {
    out[threadIdx.x] = value[threadIdx.x + 1];  // FAULT branches
  }
}
KERNEL branches_good(float* out, const float* x, int n) {
  __shared__ float value[32];
  if (threadIdx.x % 2) {
    value[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
  } else {
    __syncwarp();
    out[threadIdx.x] = value[threadIdx.x + 1];
  }
}

KERNEL warp_honest(float* out, const float* x, int n) {
  __shared__ float tile[64], all;
  tile[threadIdx.x] = x[threadIdx.x];
  float sum = __shfl_xor_sync(0xffffffffu, tile[threadIdx.x], 1);   // lanes meet in a shuffle
  sum += tile[threadIdx.x ^ 2];
  __syncwarp();
  tile[threadIdx.x] += 1;                                            // only what is its own
  tile[threadIdx.x] += 2;
  __syncthreads();
  all = 3.0f;                                                        // every lane the same
  if (threadIdx.x == 0) atomicAdd(&tile[5], 1.0f);
  __syncthreads();
  out[threadIdx.x] = sum + all + tile[threadIdx.x];
}

// ---- Blocks -----------------------------------------------------------------------------------------------

// A fence for the own block only.
KERNEL scope_bad(float* out, const float* x, int n) {
  partial[blockIdx.x] = x[blockIdx.x];
  __threadfence_block();
  if (atomicInc(&arrived, gridDim.x - 1) != gridDim.x - 1) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += __ldcg(partial + i);  // FAULT scope
  out[0] = sum;
}
KERNEL scope_good(float* out, const float* x, int n) {
  partial[blockIdx.x] = x[blockIdx.x];
  __threadfence_system();
  if (atomicInc(&arrived, gridDim.x - 1) != gridDim.x - 1) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += __ldcg(partial + i);
  out[0] = sum;
}

// The thread that fences has not met those that wrote.
KERNEL alone_bad(float* out, const float* x, int n) {
  __shared__ bool last;
  partial[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) out[threadIdx.x] = __ldcg(partial + threadIdx.x) + __ldcg(partial + 64 + threadIdx.x);  // FAULT alone
}
KERNEL alone_good(float* out, const float* x, int n) {
  __shared__ bool last;
  partial[blockIdx.x * blockDim.x + threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last) out[threadIdx.x] = __ldcg(partial + threadIdx.x) + __ldcg(partial + 64 + threadIdx.x);
}

// What was published is not what is read: a ticket of another counter.
KERNEL unrelated_bad(float* out, const float* x, int n) {
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    __threadfence();
    atomicAdd(&other, 1u);
  } else {
    unsigned mine = atomicAdd(&ticket, 1u);
    out[blockIdx.x] = __ldcg(partial) + mine;  // FAULT unrelated
  }
}
KERNEL unrelated_good(float* out, const float* x, int n) {
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    __threadfence();
    atomicAdd(&other, 1u);
  } else {
    while (((volatile unsigned*)&other)[0] == 0) {}
    out[blockIdx.x] = __ldcg(partial);
  }
}

KERNEL relaxed_bad(float* out, const float* x, int n) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(other);
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    flag.store(1, cuda::memory_order_relaxed);
  } else {
    while (flag.load(cuda::memory_order_relaxed) == 0) {}
    out[blockIdx.x] = partial[0];  // FAULT relaxed
  }
}
KERNEL relaxed_good(float* out, const float* x, int n) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(other);
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    flag.store(1, cuda::memory_order_release);
  } else {
    while (flag.load(cuda::memory_order_acquire) == 0) {}
    out[blockIdx.x] = partial[0];
  }
}

// A volatile load orders nothing by itself: a plain one behind it may find what its cache had.
KERNEL unfenced_bad(float* out, const float* x, int n) {
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    __threadfence();
    atomicAdd(&other, 1u);
  } else {
    while (((volatile unsigned*)&other)[0] == 0) {}
    out[blockIdx.x] = partial[0];  // FAULT unfenced
  }
}
KERNEL unfenced_good(float* out, const float* x, int n) {
  if (blockIdx.x == 0) {
    partial[0] = x[0];
    __threadfence();
    atomicAdd(&other, 1u);
  } else {
    while (((volatile unsigned*)&other)[0] == 0) {}
    __threadfence();
    out[blockIdx.x] = partial[0];
  }
}

// The read-only cache sees no writes of its launch, whatever comes between.
KERNEL constant_bad(float* out, const float* x, int n) {
  partial[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = __ldg(&partial[31 - threadIdx.x]);  // FAULT constant
}
KERNEL constant_good(float* out, const float* x, int n) {
  partial[threadIdx.x] = __ldg(&x[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = partial[31 - threadIdx.x];
}

// An atomic for threads of one block is none for another.
KERNEL narrow_bad(float* out, const float* x, int n) {
  atomicAdd_block(&other, 1u);  // FAULT narrow
}
KERNEL narrow_good(float* out, const float* x, int n) {
  atomicAdd(&other, 1u);
}

// Atomics on two places are not ordered either.
KERNEL accumulated_bad(float* out, const float* x, int n) {
  if (blockIdx.x) {
    atomicAdd(&total, x[blockIdx.x]);
    atomicAdd(&arrived, 1u);
  } else {
    while (*(volatile unsigned*)&arrived < gridDim.x - 1) {}
    out[0] = __ldcg(&total);  // FAULT accumulated
  }
}
KERNEL accumulated_good(float* out, const float* x, int n) {
  if (blockIdx.x) {
    atomicAdd(&total, x[blockIdx.x]);
    __threadfence();
    atomicAdd(&arrived, 1u);
  } else {
    while (*(volatile unsigned*)&arrived < gridDim.x - 1) {}
    out[0] = __ldcg(&total);
  }
}

__device__ void grid_barrier(bool fences) {
  __syncthreads();
  if (threadIdx.x == 0) {
    if (fences) __threadfence();
    unsigned now = *(volatile unsigned*)&sense;
    if (atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1) {
      if (fences) __threadfence();
      atomicAdd(&sense, 1u);
    }
    while (*(volatile unsigned*)&sense == now) {}
    if (fences) __threadfence();
  }
  __syncthreads();
}
KERNEL grid_barrier_bad(float* out, const float* x, int n) {
  for (int i = 0; i < 3; ++i) {
    partial[blockIdx.x * 64 + threadIdx.x] = i + x[blockIdx.x];
    grid_barrier(false);
    out[threadIdx.x] += 0 * __ldcg(partial + (blockIdx.x + 1) % gridDim.x * 64 + threadIdx.x);  // FAULT grid_barrier
    grid_barrier(false);
  }
}
KERNEL grid_barrier_good(float* out, const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < 3; ++i) {
    partial[blockIdx.x * 64 + threadIdx.x] = i + x[blockIdx.x];
    grid_barrier(true);
    sum += __ldcg(partial + (blockIdx.x + 1) % gridDim.x * 64 + threadIdx.x);
    grid_barrier(true);
  }
  if (blockIdx.x == 0) out[threadIdx.x] = sum;
}

// ---- Right ones without a twin ----------------------------------------------------------------------------

// Decoupled look-back: value and state in one word.
__device__ unsigned long long status[64];
KERNEL packed_scan_honest(float* out, const float* x, int n) {
  if (threadIdx.x) return;
  unsigned tile = atomicAdd(&ticket, 1u) % gridDim.x;
  float sum = x[tile];
  volatile unsigned long long* states = status;
  states[tile] = 1ull << 32 | __float_as_uint(sum);
  for (int before = (int)tile - 1; before >= 0; --before) {
    unsigned long long seen;
    do seen = states[before]; while (seen >> 32 == 0);
    sum += __uint_as_float((unsigned)seen);
    if (seen >> 32 == 2) break;
  }
  states[tile] = 2ull << 32 | __float_as_uint(sum);
  out[tile] = sum;
}
// Flag and value apart, with fences.
__device__ volatile int flags[64];
__device__ volatile float sums[64];
KERNEL flagged_scan_honest(float* out, const float* x, int n) {
  if (threadIdx.x) return;
  float sum = x[blockIdx.x];
  if (blockIdx.x) {
    while (flags[blockIdx.x - 1] == 0) {}
    __threadfence();
    sum += sums[blockIdx.x - 1];
  }
  sums[blockIdx.x] = sum;
  __threadfence();
  flags[blockIdx.x] = 1;
  out[blockIdx.x] = sum;
}
// Blocks take tiles until there are none; the last one sets the counter back.
KERNEL persistent_honest(float* out, const float* x, int n) {
  __shared__ unsigned tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(&ticket, 1u);
    __syncthreads();
    unsigned mine = tile;
    __syncthreads();
    if (mine >= 2) break;
    out[mine * 64 + threadIdx.x] = x[mine * 64 + threadIdx.x] + 1;
  }
  if (threadIdx.x == 0 && atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1) ticket = 0;
}
KERNEL cooperative_honest(float* out, const float* x, int n) {
  cg::grid_group grid = cg::this_grid();
  for (int i = 0; i < 2; ++i) {
    partial[grid.thread_rank()] = x[grid.thread_rank() % n] + i;
    grid.sync();
    if (i == 1) out[grid.thread_rank() % 64 + 64 * (blockIdx.x == 0)] = 0 * partial[(grid.thread_rank() + 64) % grid.size()];
    grid.sync();
  }
}
KERNEL chained_honest(float* out, const float* x, int n) {   // 0 tells 1, who tells 2, who reads what 0 wrote
  unsigned b = blockIdx.x;
  if (b == 0) partial[0] = x[0];
  if (b > 0) while (flags[b - 1] == 0) {}
  __threadfence();
  if (b == gridDim.x - 1) out[0] = *(volatile float*)partial;
  else flags[b] = 1;
}

// ---- Launches ---------------------------------------------------------------------------------------------

KERNEL first(float* out, float* x, int n) { x[threadIdx.x] = threadIdx.x; }
KERNEL dependent_bad(float* out, const float* x, int n) {
  out[threadIdx.x] = x[63 - threadIdx.x];  // FAULT dependent
}
KERNEL dependent_good(float* out, const float* x, int n) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0) cudaGridDependencySynchronize();
#endif
  __syncthreads();
  out[threadIdx.x] = x[63 - threadIdx.x];
}
KERNEL overwriting_bad(float* out, float* x, int n) {
  x[threadIdx.x] = 1;  // FAULT overwriting
}
KERNEL overwriting_good(float* out, float* x, int n) {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  x[threadIdx.x] = 1;
}
