// Kernels whose blocks or warps wait for each other. tests/ptx/test_schedule.py launches them.
#include <cstdint>
#define KERNEL extern "C" __global__ void

// A barrier of the whole grid by hand, then each block reads what its neighbour wrote.
KERNEL grid_barrier(float* out, float* partial, unsigned* arrived) {
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = blockIdx.x;
    __threadfence();
    atomicAdd(arrived, 1);
    while (*(volatile unsigned*)arrived < gridDim.x) {}
    __threadfence();
    out[blockIdx.x] = ((volatile float*)partial)[(blockIdx.x + 1) % gridDim.x];
  }
}

// Each block waits for the one before it, in the order of their numbers, or of tickets.
KERNEL chain(float* out, float* sums, unsigned* ready, unsigned* tickets, int patience) {
  __shared__ unsigned mine;
  if (threadIdx.x == 0) mine = tickets ? atomicAdd(tickets, 1) : blockIdx.x;
  __syncthreads();
  unsigned me = mine;
  if (threadIdx.x == 0) {
    float before = 0;
    if (me > 0) {
      for (int tries = 0; patience == 0 || tries < patience; ++tries)
        if (((volatile unsigned*)ready)[me - 1]) {
          __threadfence();
          before = ((volatile float*)sums)[me - 1];
          break;
        }
    }
    ((volatile float*)sums)[me] = before + 1;
    __threadfence();
    ((volatile unsigned*)ready)[me] = 1;
    out[me] = before + 1;
  }
}

// One warp fetches and signals; the others meet at a barrier of their own before they answer it.
KERNEL specialized(float* out) {
  __shared__ volatile int answered;
  int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) answered = 0;
  __syncthreads();
  if (warp == 0) {
    while (answered == 0) {}
    out[threadIdx.x] = 1;
  } else {
    asm volatile("bar.sync 1, 96;" ::: "memory");
    __threadfence_block();
    if (threadIdx.x == 32) answered = 1;
    out[threadIdx.x] = 2;
  }
}

// Reads many volatile values in a row: no store, but no waiting either.
KERNEL reads_on(float* out, const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += ((volatile const float*)x)[i];
  out[0] = sum;
}

KERNEL copies(float* out, const float* x) { out[blockIdx.x * 32 + threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x]; }

KERNEL heap(float** kept, float* out, int n, bool frees) {
  float* mine = (float*)malloc(n * sizeof(float));
  out[threadIdx.x] = mine ? 1 : 0;
  if (!mine) return;
  for (int i = 0; i < n; ++i) mine[i] = i;
  kept[threadIdx.x] = mine;
  if (frees) free(mine);
}
