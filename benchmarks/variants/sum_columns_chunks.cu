// task: core/level1/sum_columns
// family: column reduction
// kernelblaster-tune: CHUNK = 64, 512, 8192
// kernelblaster-tune: LINES = 2, 16
#ifndef CHUNK
#define CHUNK 512
#endif
#ifndef LINES
#define LINES 16
#endif

// A block sums 32 columns of one chunk of rows. Large chunks make few blocks.
__global__ void chunk_sums(double* sums, const float* x, int64_t rows, int64_t cols) {
    __shared__ double partial[LINES][32];
    int64_t col = blockIdx.x * int64_t(32) + threadIdx.x;
    int64_t begin = blockIdx.y * int64_t(CHUNK);
    int64_t end = begin + CHUNK < rows ? begin + CHUNK : rows;
    double total = 0;
    if (col < cols)
        for (int64_t r = begin + threadIdx.y; r < end; r += LINES) total += x[r * cols + col];
    partial[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int line = 1; line < LINES; ++line) total += partial[line][threadIdx.x];
    sums[blockIdx.y * cols + col] = total;
}

__global__ void add_chunks(float* out, const double* sums, int64_t chunks, int64_t cols) {
    int64_t col = blockIdx.x * int64_t(64) + threadIdx.x;
    if (col >= cols) return;
    double total = 0;
    for (int64_t i = 0; i < chunks; ++i) total += sums[i * cols + col];
    out[col] = float(total);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    int64_t chunks = (x_0 + CHUNK - 1) / CHUNK;
    double* sums = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&sums), chunks * x_1 * sizeof(double), stream);
    dim3 grid(unsigned((x_1 + 31) / 32), unsigned(chunks));
    chunk_sums<<<grid, dim3(32, LINES), 0, stream>>>(sums, x, x_0, x_1);
    add_chunks<<<unsigned((x_1 + 63) / 64), 64, 0, stream>>>(out, sums, chunks, x_1);
    cudaFreeAsync(sums, stream);
}
