// task: core/level1/sum_columns
// family: column reduction
// kernelblaster-tune: BLOCK = 64, 512
#ifndef BLOCK
#define BLOCK 512
#endif

// One block a column: every value that is used costs a whole sector.
__global__ void __launch_bounds__(BLOCK)
sum_columns(float* out, const float* x, int64_t rows, int64_t cols) {
    __shared__ double partial[BLOCK];
    double total = 0;
    for (int64_t r = threadIdx.x; r < rows; r += BLOCK) total += x[r * cols + blockIdx.x];
    partial[threadIdx.x] = total;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = float(partial[0]);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    sum_columns<<<unsigned(x_1), BLOCK, 0, stream>>>(out, x, x_0, x_1);
}
