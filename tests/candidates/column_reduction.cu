// task: core/level1/sum_columns
// family: column reduction
// plant: rows beyond the last whole chunk are dropped

static const int CHUNK = 256, LINES = 8;

// A block sums 32 columns of one chunk of rows: warps read along the rows.
__global__ void chunk_sums(float* sums, const float* x, int64_t rows, int64_t cols) {
    __shared__ float partial[LINES][32];
    int64_t col = blockIdx.x * int64_t(32) + threadIdx.x;
    int64_t begin = blockIdx.y * int64_t(CHUNK);
    int64_t end = begin + CHUNK < rows ? begin + CHUNK : rows;
    float sum = 0;
    if (col < cols)
        for (int64_t r = begin + threadIdx.y; r < end; r += LINES) sum += x[r * cols + col];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int line = 1; line < LINES; ++line) sum += partial[line][threadIdx.x];
    sums[blockIdx.y * cols + col] = sum;
}

__global__ void add_chunks(float* out, const float* sums, int64_t chunks, int64_t cols) {
    __shared__ double partial[LINES][32];
    int64_t col = blockIdx.x * int64_t(32) + threadIdx.x;
    double sum = 0;
    if (col < cols)
        for (int64_t i = threadIdx.y; i < chunks; i += LINES) sum += sums[i * cols + col];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int line = 1; line < LINES; ++line) sum += partial[line][threadIdx.x];
    out[col] = float(sum);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    int64_t chunks = (x_0 + CHUNK - 1) / CHUNK;
#ifdef PLANTED_ERROR
    if (x_0 > CHUNK) chunks = x_0 / CHUNK;
#endif
    float* sums = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&sums), chunks * x_1 * sizeof(float), stream);
    unsigned columns = unsigned((x_1 + 31) / 32);
    chunk_sums<<<dim3(columns, unsigned(chunks)), dim3(32, LINES), 0, stream>>>(sums, x, x_0, x_1);
    add_chunks<<<columns, dim3(32, LINES), 0, stream>>>(out, sums, chunks, x_1);
    cudaFreeAsync(sums, stream);
}
