// task: core/level1/cumsum
// family: scan
// plant: the carry is replaced instead of added to: right for rows of up to two pieces

static const int THREADS = 256, EACH = 8, PIECE = THREADS * EACH;

// A block a row, in pieces of 2048: eight elements a thread, then warps, then the block. The sums are
// double: the kernel waits for memory anyway, and a running sum in float would lose digits.
__global__ void __launch_bounds__(THREADS) cumsum(float* out, const float* x, int64_t cols) {
    __shared__ double warps[THREADS / 32];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool wide = cols % 4 == 0;
    double carry = 0;
    for (int64_t start = 0; start < cols; start += PIECE) {
        int64_t first = start + threadIdx.x * EACH;
        float raw[EACH];
        if (wide && first + EACH <= cols) {
            *reinterpret_cast<float4*>(raw) = *reinterpret_cast<const float4*>(x + first);
            *reinterpret_cast<float4*>(raw + 4) = *reinterpret_cast<const float4*>(x + first + 4);
        } else {
#pragma unroll
            for (int i = 0; i < EACH; ++i) raw[i] = first + i < cols ? x[first + i] : 0;
        }
        double v[EACH], sum = 0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) v[i] = sum += raw[i];
        for (int o = 1; o < 32; o *= 2) {
            double left = __shfl_up_sync(~0u, sum, o);
            if (lane >= o) sum += left;
        }
        if (lane == 31) warps[warp] = sum;
        double before = __shfl_up_sync(~0u, sum, 1);
        if (lane == 0) before = 0;
        __syncthreads();
        double earlier = 0, total = 0;
#pragma unroll
        for (int w = 0; w < THREADS / 32; ++w) {
            if (w < warp) earlier += warps[w];
            total += warps[w];
        }
        double offset = carry + (earlier + before);
        if (wide && first + EACH <= cols) {
            auto to = reinterpret_cast<float4*>(out + first);
            to[0] = {float(offset + v[0]), float(offset + v[1]), float(offset + v[2]), float(offset + v[3])};
            to[1] = {float(offset + v[4]), float(offset + v[5]), float(offset + v[6]), float(offset + v[7])};
        } else {
#pragma unroll
            for (int i = 0; i < EACH; ++i)
                if (first + i < cols) out[first + i] = float(offset + v[i]);
        }
#ifdef PLANTED_ERROR
        carry = total;
#else
        carry += total;
#endif
        __syncthreads();
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    cumsum<<<unsigned(x_0), THREADS, 0, stream>>>(out, x, x_1);
}
