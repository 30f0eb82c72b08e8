// Waits until all of `blocks` blocks have done at least `steps` time steps, as they say in `done`. What they wrote
// before is visible then.
__device__ void wait_for_steps(const int* done, int blocks, int steps) {
  if (threadIdx.x < 32) {
    for (int block = threadIdx.x; block < blocks; block += 32) {
      int seen;
      do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(done + block) : "memory");
      } while (seen < steps);
    }
  }
  __syncthreads();
}

// Says that this block has done so many time steps, and makes what all of its threads wrote visible.
__device__ void tell_steps(int* done, int steps) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(done), "r"(steps) : "memory");
  }
}

// Copies `rows` rows of `features` elements, which are `pitch` elements apart (a multiple of 4), to rows of WIDTH
// elements in shared memory, by all THREADS threads of a block; what is behind them there stays as it is. They are
// read from the L2 cache, since other blocks wrote them.
template <int WIDTH, int THREADS>
__device__ void copy_states(float* to, const float* from, int rows, int features, int pitch) {
  #pragma unroll 8
  for (int at = threadIdx.x; at < rows * (WIDTH / 4); at += THREADS) {
    const int row = at / (WIDTH / 4), first = at % (WIDTH / 4) * 4;
    const float* here = from + (int64_t)row * pitch + first;
    if (first + 4 <= features) {
      *reinterpret_cast<float4*>(to + at * 4) = __ldcg(reinterpret_cast<const float4*>(here));
    } else {
      for (int i = 0; first + i < features; ++i) to[at * 4 + i] = __ldcg(here + i);
    }
  }
}
