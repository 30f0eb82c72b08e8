// task: core/level1/conv2d_depthwise
// family: depthwise convolution
// kernelblaster-tune: BLOCK = 64, 512
// kernelblaster-tune: LONG = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef LONG
#define LONG 1
#endif

#if LONG
typedef int64_t Index;
#else
typedef unsigned Index;
#endif

// One pixel a thread, found by divisions: 64-bit ones are far dearer than 32-bit ones.
__global__ void __launch_bounds__(BLOCK)
flat(float* out, const float* x, const float* weight, const float* bias, Index total, Index channels,
     Index height, Index width) {
    Index i = blockIdx.x * Index(BLOCK) + threadIdx.x;
    if (i >= total) return;
    Index col = i % width, row = i / width % height, plane = i / width / height;
    Index channel = plane % channels;
    float sum = bias[channel];
#pragma unroll
    for (int t = 0; t < 9; ++t) {
        int64_t r = int64_t(row) + t / 3 - 1, c = int64_t(col) + t % 3 - 1;
        if (r >= 0 && r < int64_t(height) && c >= 0 && c < int64_t(width))
            sum += x[(int64_t(plane) * height + r) * width + c] * weight[channel * 9 + t];
    }
    out[i] = sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* conv_weight,
                                          const float* conv_bias, int64_t x_0, int64_t x_1, int64_t x_2,
                                          int64_t x_3, int64_t, int64_t, cudaStream_t stream) {
    int64_t total = x_0 * x_1 * x_2 * x_3;
    flat<<<unsigned((total + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(
        out, x, conv_weight, conv_bias, Index(total), Index(x_1), Index(x_2), Index(x_3));
}
