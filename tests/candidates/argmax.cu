// task: core/level1/argmax_columns
// family: argmax
// plant: the search starts from zero, not from the first value: wrong in columns without a positive one

static const int LINES = 4;

// 32 columns a block; four lines of threads share the rows, then agree on the first maximum.
__global__ void argmax(int64_t* out, const float* x, int64_t rows, int64_t cols, int64_t blocks) {
    __shared__ float values[LINES][32];
    __shared__ int64_t places[LINES][32];
    int64_t batch = blockIdx.x / blocks, col = blockIdx.x % blocks * 32 + threadIdx.x;
    const float* p = x + batch * rows * cols + col;
#ifdef PLANTED_ERROR
    float best = 0;
    int64_t place = 0;
#else
    float best = -INFINITY;
    int64_t place = rows;
#endif
    if (col < cols)
        for (int64_t r = threadIdx.y; r < rows; r += LINES) {
            float v = p[r * cols];
            if (v > best || (v == best && r < place)) {
                best = v;
                place = r;
            }
        }
    values[threadIdx.y][threadIdx.x] = best;
    places[threadIdx.y][threadIdx.x] = place;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols) return;
    for (int line = 1; line < LINES; ++line) {
        float v = values[line][threadIdx.x];
        int64_t r = places[line][threadIdx.x];
        if (v > best || (v == best && r < place)) {
            best = v;
            place = r;
        }
    }
    out[batch * cols + col] = place;
}

extern "C" void launch_gpu_implementation(int64_t* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, cudaStream_t stream) {
    int64_t blocks = (x_2 + 31) / 32;
    argmax<<<unsigned(x_0 * blocks), dim3(32, LINES), 0, stream>>>(out, x, x_1, x_2, blocks);
}
