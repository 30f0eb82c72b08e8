// kernelblaster-task
// size: n = 4194304, small 4099
// output: out float32 [n]
// input: x float32 [n] normal
//
// out = x, and beside that ROUNDS shared loads of one pattern for each thread: WIDTH words a lane, lane l at
// (l & DIFFER) * STRIDE words. The sum of what was loaded, which is 0, keeps the loads from being left out.

#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef DIFFER
#define DIFFER 31
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#define ROUNDS 64

__global__ void __launch_bounds__(256) pattern(float* out, const float* x, int64_t n) {
    __shared__ __align__(16) float tile[8192];
    for (int i = threadIdx.x; i < 8192; i += 256) tile[i] = 0.0f;
    __syncthreads();
    const int base = ((threadIdx.x & DIFFER) * STRIDE) & 8191;
    float sum = 0.0f;
#pragma unroll 4
    for (int round = 0; round < ROUNDS; ++round) {
        const volatile float* at = tile + ((base + round * 32 * STRIDE) & (8192 - 4));
#if WIDTH == 4
        float a, b, c, d;
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
                     : "r"((unsigned)__cvta_generic_to_shared((const void*)at)));
        sum += a + b + c + d;
#elif WIDTH == 2
        float a, b;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(a), "=f"(b)
                     : "r"((unsigned)__cvta_generic_to_shared((const void*)at)));
        sum += a + b;
#else
        float a;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a)
                     : "r"((unsigned)__cvta_generic_to_shared((const void*)at)));
        sum += a;
#endif
    }
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) out[i] = x[i] + sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t n, cudaStream_t stream) {
    pattern<<<unsigned((n + 255) / 256), 256, 0, stream>>>(out, x, n);
}
