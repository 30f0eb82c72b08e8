// Pairs of kernels: one with a planted fault, marked FAULT at the line that must be named, and a right one.
#include <cassert>
#include <cstdio>

#define KERNEL extern "C" __global__ void

KERNEL bounds_bad(float* out, const float* x, int n) { out[threadIdx.x + n - 31] = x[threadIdx.x]; }  // FAULT bounds
KERNEL bounds_good(float* out, const float* x, int n) { out[threadIdx.x] = x[threadIdx.x]; }

KERNEL aligned_bad(float* out, const float* x, int n) {
  float2 pair = *(const float2*)(x + 1 + 2 * threadIdx.x);  // FAULT aligned
  if (threadIdx.x < 16) out[threadIdx.x] = pair.x + pair.y;
}
KERNEL aligned_good(float* out, const float* x, int n) {
  float2 pair = *(const float2*)(x + 2 * threadIdx.x);
  out[threadIdx.x] = pair.x + pair.y;
}

KERNEL shared_race_bad(float* out, const float* x, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = tile[63 - threadIdx.x];  // FAULT shared_race
}
KERNEL shared_race_good(float* out, const float* x, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[63 - threadIdx.x];
}

KERNEL overwrite_bad(float* out, const float* x, int n) {
  __shared__ float tile[64];
  for (int i = 0; i < 2; ++i) {
    tile[threadIdx.x] = x[threadIdx.x] + i;  // FAULT overwrite
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
  }
}
KERNEL overwrite_good(float* out, const float* x, int n) {
  __shared__ float tile[64];
  for (int i = 0; i < 2; ++i) {
    tile[threadIdx.x] = x[threadIdx.x] + i;
    __syncthreads();
    out[threadIdx.x] = tile[63 - threadIdx.x];
    __syncthreads();
  }
}

KERNEL halves_bad(float* out, const float* x, int n) {
  __shared__ unsigned short tile[64];
  tile[threadIdx.x] = (unsigned short)x[threadIdx.x];
  out[threadIdx.x] = tile[threadIdx.x ^ 32];  // FAULT halves
}
KERNEL halves_good(float* out, const float* x, int n) {
  __shared__ unsigned short tile[64];
  int place = threadIdx.x % 32 * 2 + threadIdx.x / 32;  // two warps share every word, but no bytes
  tile[place] = (unsigned short)x[threadIdx.x];
  out[threadIdx.x] = tile[place];
}

KERNEL collision_bad(float* out, const float* x, int n) {
  __shared__ float best;
  if (threadIdx.x < 32) best = threadIdx.x;  // FAULT collision
  __syncthreads();
  out[threadIdx.x] = best;
}
KERNEL collision_good(float* out, const float* x, int n) {
  __shared__ float best;
  best = 3.0f;
  __syncthreads();
  out[threadIdx.x] = best;
}

KERNEL named_barrier_bad(float* out, const float* x, int n) {
  __shared__ float tile[96];
  tile[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = tile[(threadIdx.x + 32) % 96];  // FAULT named_barrier
}
KERNEL named_barrier_good(float* out, const float* x, int n) {
  __shared__ float tile[96];
  tile[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = tile[threadIdx.x < 64 ? threadIdx.x ^ 32 : threadIdx.x];
}

KERNEL hand_over_bad(float* out, const float* x, int n) {
  __shared__ float tile[32];
  if (threadIdx.x < 32) {
    asm volatile("bar.arrive 1, 64;" ::: "memory");
    tile[threadIdx.x] = x[threadIdx.x];
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[threadIdx.x - 32];  // FAULT hand_over
  }
}
KERNEL hand_over_good(float* out, const float* x, int n) {
  __shared__ float tile[32];
  if (threadIdx.x < 32) {
    tile[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.arrive 1, 64;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");
    out[threadIdx.x] = tile[threadIdx.x - 32];
  }
}

KERNEL async_copy_bad(float* out, const float* x, int n) {
  __shared__ float tile[64];
  unsigned place = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
  out[threadIdx.x] = tile[threadIdx.x ^ 32];  // FAULT async_copy
}
KERNEL async_copy_good(float* out, const float* x, int n) {
  __shared__ float tile[64];
  unsigned place = (unsigned)__cvta_generic_to_shared(&tile[threadIdx.x]);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(place), "l"(x + threadIdx.x) : "memory");
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x ^ 32];
}

KERNEL block_race_bad(float* out, const float* x, int n) { out[0] += x[blockIdx.x]; }  // FAULT block_race
KERNEL block_race_good(float* out, const float* x, int n) { atomicAdd(out, x[blockIdx.x]); }

KERNEL warp_race_bad(float* out, const float* x, int n) {
  out[threadIdx.x] = x[threadIdx.x];
  float other = *(volatile float*)(out + (threadIdx.x ^ 32));  // FAULT warp_race
  if (other > 1e30f) out[threadIdx.x] = 0;
}
KERNEL warp_race_good(float* out, const float* x, int n) {
  out[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float other = *(volatile float*)(out + (threadIdx.x ^ 32));
  if (other > 1e30f) out[threadIdx.x] = 0;
}

KERNEL lost_update_bad(float* out, const float* x, int n) {
  *(volatile float*)out = *(volatile float*)out + x[blockIdx.x] + 1;  // FAULT lost_update
}
KERNEL lost_update_good(float* out, const float* x, int n) { *(volatile float*)(out + blockIdx.x) = x[blockIdx.x] + 1; }

__device__ unsigned arrived;
__device__ float partial[64];
// The last block adds up what all have written: right only if each publishes it with a fence.
KERNEL last_block_bad(float* out, const float* x, int n) {
  partial[blockIdx.x] = x[blockIdx.x];
  if (atomicInc(&arrived, gridDim.x - 1) != gridDim.x - 1) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += ((volatile float*)partial)[i];  // FAULT last_block
  out[0] = sum;
}
KERNEL last_block_good(float* out, const float* x, int n) {
  partial[blockIdx.x] = x[blockIdx.x];
  __threadfence();
  if (atomicInc(&arrived, gridDim.x - 1) != gridDim.x - 1) return;
  float sum = 0;
  for (int i = 0; i < gridDim.x; ++i) sum += ((volatile float*)partial)[i];
  out[0] = sum;
}

KERNEL lock_bad(float* out, const float* x, int n) {
  if (threadIdx.x % 32) return;
  while (atomicCAS(&arrived, 0u, 1u)) {}
  out[0] += x[threadIdx.x];  // FAULT lock
  atomicExch(&arrived, 0u);
}
KERNEL lock_good(float* out, const float* x, int n) {
  if (threadIdx.x % 32) return;
  while (atomicCAS(&arrived, 0u, 1u)) {}
  __threadfence();
  out[0] += x[threadIdx.x];
  __threadfence();
  atomicExch(&arrived, 0u);
}

KERNEL fresh_shared_bad(float* out, const float* x, int n) {
  __shared__ float tile[64];
  if (threadIdx.x % 2) tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT fresh_shared
}
KERNEL fresh_shared_good(float* out, const float* x, int n) {
  __shared__ float tile[64];
  tile[threadIdx.x] = threadIdx.x % 2 ? x[threadIdx.x] : 0.0f;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}

KERNEL fresh_local_bad(float* out, const float* x, int n) {
  float kept[8];
  for (int i = 1; i < 8; ++i) kept[(int)x[i] & 7] = x[i];
  out[threadIdx.x] = kept[threadIdx.x % 8];  // FAULT fresh_local
}
KERNEL fresh_local_good(float* out, const float* x, int n) {
  float kept[8];
  for (int i = 0; i < 8; ++i) kept[(int)x[i] & 7] = x[i];
  out[threadIdx.x] = kept[threadIdx.x % 8];
}

KERNEL fresh_scratch_bad(float* out, const float* x, int n) { out[threadIdx.x] = x[threadIdx.x]; }  // FAULT fresh_scratch
KERNEL fresh_scratch_good(float* out, float* x, int n) {
  x[threadIdx.x] = 1.0f;
  out[threadIdx.x] = x[threadIdx.x];
}

KERNEL split_barrier_bad(float* out, const float* x, int n) {
  if (threadIdx.x % 2) {
    __syncthreads();  // FAULT split_barrier
    out[threadIdx.x] = 1.0f;
  } else {
    __syncthreads();
    out[threadIdx.x] = x[threadIdx.x];
  }
}
KERNEL split_barrier_good(float* out, const float* x, int n) {
  __syncthreads();
  out[threadIdx.x] = threadIdx.x % 2 ? 1.0f : x[threadIdx.x];
}

KERNEL deadlock_bad(float* out, const float* x, int n) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;" ::: "memory");  // FAULT deadlock
  else asm volatile("bar.sync 2, 64;" ::: "memory");
  out[threadIdx.x] = x[threadIdx.x];
}
KERNEL deadlock_good(float* out, const float* x, int n) {
  asm volatile("bar.sync 1, 64;" ::: "memory");
  out[threadIdx.x] = x[threadIdx.x];
}

KERNEL runaway_bad(float* out, const float* x, int n) {
  while (n > 0) asm volatile("" : "+r"(n));  // FAULT runaway
}
KERNEL runaway_good(float* out, const float* x, int n) {
  for (int i = 0; i < 100 && ((volatile float*)out)[0] == 0.0f; ++i) {}
}

KERNEL spin_bad(float* out, const float* x, int n) {
  while (((volatile float*)out)[0] == 0.0f) {}  // FAULT spin
}
KERNEL spin_good(float* out, const float* x, int n) {
  if (blockIdx.x == 7) ((volatile float*)out)[0] = 1.0f;
  while (((volatile float*)out)[0] == 0.0f) {}
}

KERNEL trap_bad(float* out, const float* x, int n) {
  if (x[threadIdx.x] >= 0) __trap();  // FAULT trap
}
KERNEL trap_good(float* out, const float* x, int n) {
  if (x[threadIdx.x] < 0) __trap();
}

KERNEL assert_bad(float* out, const float* x, int n) { assert(x[threadIdx.x] < 5); }  // FAULT assert
KERNEL assert_good(float* out, const float* x, int n) { assert(x[threadIdx.x] < 5000); }

__device__ __noinline__ int deeper(int n) { return n <= 0 ? 1 : deeper(n - 1) * 3 + deeper(n - 2); }  // FAULT recursion
KERNEL recursion_bad(float* out, const float* x, int n) { out[threadIdx.x] = deeper(n * 100); }
KERNEL recursion_good(float* out, const float* x, int n) { out[threadIdx.x] = deeper(threadIdx.x % 8); }
