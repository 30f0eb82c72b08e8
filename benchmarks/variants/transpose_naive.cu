// task: core/level1/transpose_last
// family: transpose
// kernelblaster-tune: WIDTH = 8, 32
// kernelblaster-tune: ALONG_INPUT = 0, 1
#ifndef WIDTH
#define WIDTH 32
#endif
#ifndef ALONG_INPUT
#define ALONG_INPUT 1
#endif

static const int THREADS = 256, HEIGHT = THREADS / WIDTH;

// One value a thread. Lanes follow the input's rows or the output's; the other side is strided.
__global__ void transpose(float* out, const float* x, int64_t rows, int64_t cols) {
    int64_t near = blockIdx.x * int64_t(WIDTH) + threadIdx.x;
    int64_t far = blockIdx.y * int64_t(HEIGHT) + threadIdx.y;
    int64_t r = ALONG_INPUT ? far : near, c = ALONG_INPUT ? near : far;
    if (r >= rows || c >= cols) return;
    int64_t start = blockIdx.z * rows * cols;
    out[start + c * rows + r] = x[start + r * cols + c];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, cudaStream_t stream) {
    int64_t near = ALONG_INPUT ? x_2 : x_1, far = ALONG_INPUT ? x_1 : x_2;
    dim3 grid(unsigned((near + WIDTH - 1) / WIDTH), unsigned((far + HEIGHT - 1) / HEIGHT), unsigned(x_0));
    transpose<<<grid, dim3(WIDTH, HEIGHT), 0, stream>>>(out, x, x_1, x_2);
}
