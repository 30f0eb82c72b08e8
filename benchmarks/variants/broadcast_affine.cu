// task: core/level1/broadcast_affine
// family: pointwise
// kernelblaster-tune: BLOCK = 32, 256
// kernelblaster-tune: DIVIDE = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef DIVIDE
#define DIVIDE 0
#endif

// Channel and position by the launch grid, or by 64-bit divisions.
__global__ void __launch_bounds__(BLOCK)
affine(float* out, const float* x, const float* scale, const float* offset, int64_t channels,
       int64_t length, int64_t n) {
    int64_t i, channel, position;
    if (!DIVIDE) {
        position = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
        if (position >= length) return;
        channel = blockIdx.y;
        i = (blockIdx.z * channels + channel) * length + position;
    } else {
        i = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
        if (i >= n) return;
        position = i % length;
        channel = i / length % channels;
    }
    out[i] = x[i] * scale[channel] + offset[position];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* scale,
                                          const float* offset, int64_t x_0, int64_t x_1, int64_t x_2,
                                          cudaStream_t stream) {
    int64_t n = x_0 * x_1 * x_2;
    dim3 grid(unsigned((n + BLOCK - 1) / BLOCK));
    if (!DIVIDE) grid = dim3(unsigned((x_2 + BLOCK - 1) / BLOCK), unsigned(x_1), unsigned(x_0));
    affine<<<grid, BLOCK, 0, stream>>>(out, x, scale, offset, x_1, x_2, n);
}
