// Pairs of kernels that copy asynchronously: one that does not wait for its copy, marked FAULT at the line that must
// be named, and a right one.
#include <cooperative_groups.h>

#include <cstdint>
#include <cuda/barrier>
#include <cuda/pipeline>

#define KERNEL extern "C" __global__ void

__device__ unsigned place(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy4(float* to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place(to)), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int n> __device__ void await() { asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory"); }

KERNEL unawaited_bad(float* out, const float* x) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], x + threadIdx.x);
  commit();
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT unawaited
}
KERNEL unawaited_good(float* out, const float* x) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], x + threadIdx.x);
  commit();
  await<0>();
  out[threadIdx.x] = tile[threadIdx.x];
}

KERNEL by_barrier_bad(float* out, const float* x) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], x + threadIdx.x);
  commit();
  __syncthreads();
  out[63 - threadIdx.x] = tile[63 - threadIdx.x];  // FAULT by_barrier
}
KERNEL by_barrier_good(float* out, const float* x) {
  __shared__ float tile[64];
  copy4(&tile[threadIdx.x], x + threadIdx.x);
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  out[63 - threadIdx.x] = tile[63 - threadIdx.x];
}

// Two stages: of those that were committed, all but the last.
KERNEL one_too_few_bad(float* out, const float* x) {
  __shared__ float tile[2][64];
  copy4(&tile[0][threadIdx.x], x + threadIdx.x), commit();
  copy4(&tile[1][threadIdx.x], x + threadIdx.x), commit();
  await<1>();
  out[threadIdx.x] = tile[0][threadIdx.x] + tile[1][threadIdx.x] - x[threadIdx.x];  // FAULT one_too_few
}
KERNEL one_too_few_good(float* out, const float* x) {
  __shared__ float tile[2][64];
  copy4(&tile[0][threadIdx.x], x + threadIdx.x), commit();
  copy4(&tile[1][threadIdx.x], x + threadIdx.x), commit();
  await<1>();
  float sum = tile[0][threadIdx.x];
  await<0>();
  out[threadIdx.x] = sum + tile[1][threadIdx.x] - x[threadIdx.x];
}

__device__ void wait_for(uint64_t* barrier, unsigned parity) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(place(barrier)), "r"(parity) : "memory");
}
__device__ void load_bulk(float* tile, const float* x, unsigned bytes, uint64_t* barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(barrier)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(place(tile)), "l"(x), "r"(bytes), "r"(place(barrier)) : "memory");
}
__device__ void start(uint64_t* barrier, unsigned count) {
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(barrier)), "r"(count) : "memory");
  __syncthreads();
}
KERNEL bulk_bad(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 1);
  if (threadIdx.x == 0) load_bulk(tile, x, sizeof tile, &barrier);
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT bulk
}
KERNEL bulk_good(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 1);
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) load_bulk(tile, x, sizeof tile, &barrier);
    wait_for(&barrier, i & 1);
    out[threadIdx.x] = tile[threadIdx.x];
    __syncthreads();
  }
}

// It reads its tile again while the next copy is already on its way there.
KERNEL reused_bad(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 1);
  if (threadIdx.x == 0) load_bulk(tile, x, sizeof tile, &barrier);
  wait_for(&barrier, 0);
  if (threadIdx.x == 0) load_bulk(tile, x + 64, sizeof tile, &barrier);
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT reused
  wait_for(&barrier, 1);
}
KERNEL reused_good(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 1);
  if (threadIdx.x == 0) load_bulk(tile, x, sizeof tile, &barrier);
  wait_for(&barrier, 0);
  out[threadIdx.x] = tile[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) load_bulk(tile, x + 64, sizeof tile, &barrier);
  wait_for(&barrier, 1);
  out[threadIdx.x] += 0 * tile[threadIdx.x];
}

__device__ void store_bulk(float* out, const float* tile, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out), "r"(place(tile)), "r"(bytes)  // FAULT proxy
               : "memory");
  asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
}
KERNEL proxy_bad(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) store_bulk(out, tile, sizeof tile);
}
KERNEL proxy_good(float* out, const float* x) {
  __shared__ alignas(16) float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) store_bulk(out, tile, sizeof tile);
}

// A copy out of shared memory reads it until somebody has waited.
__device__ void stored_twice(float* out, const float* x, float* tile, bool waits) {
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out), "r"(place(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (waits) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncthreads();
  tile[threadIdx.x] = 0;  // FAULT refilled
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
KERNEL refilled_bad(float* out, const float* x) {
  alignas(16) __shared__ float tile[64];
  stored_twice(out, x, tile, false);
}
KERNEL refilled_good(float* out, const float* x) {
  alignas(16) __shared__ float tile[64];
  stored_twice(out, x, tile, true);
}

// An mbarrier that fewer threads come to than write.
KERNEL arrivals_bad(float* out, const float* x) {
  __shared__ float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 32);
  tile[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place(&barrier)) : "memory");
  wait_for(&barrier, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x] * 0 + x[threadIdx.x];  // FAULT arrivals
}
KERNEL arrivals_good(float* out, const float* x) {
  __shared__ float tile[64];
  __shared__ uint64_t barrier;
  start(&barrier, 64);
  tile[threadIdx.x] = x[threadIdx.x];
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place(&barrier)) : "memory");
  wait_for(&barrier, 0);
  out[threadIdx.x] = tile[63 - threadIdx.x] * 0 + x[threadIdx.x];
}

// The library's ways to copy.
KERNEL pipeline_honest(float* out, const float* x) {
  __shared__ float tile[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int i = 0; i < 5; ++i) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, tile[i % 2], x, sizeof tile[0], pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    sum += i ? 0 * tile[i % 2][63 - threadIdx.x] : tile[0][threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
KERNEL barrier_honest(float* out, const float* x) {
  __shared__ float tile[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(tile + threadIdx.x, x + threadIdx.x, cuda::aligned_size_t<4>(4), barrier);
  barrier.arrive_and_wait();
  float other = tile[63 - threadIdx.x];
  out[threadIdx.x] = tile[threadIdx.x] + 0 * other;
}
