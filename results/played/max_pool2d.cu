// MaxPool2d, kernel 3x3, stride 2, padding 1. One thread per strip of kStrip
// output rows in one output column.
namespace {

constexpr int kThreads = 256;
constexpr int kStrip = 4;                   // output rows of a thread
constexpr int kRows = 2 * kStrip + 1;       // input rows under them

__device__ __forceinline__ float max_nan(float m, float v) {
    // As PyTorch: a NaN in the window wins.
    return (v > m || v != v) ? v : m;
}

__global__ void __launch_bounds__(kThreads)
max_pool_kernel(float* __restrict__ out, const float* __restrict__ x,
                int64_t planes, int H, int W, int OH, int OW) {
    const int n_strips = (OH + kStrip - 1) / kStrip * OW;   // of one plane
    for (int64_t p = blockIdx.x; p < planes; p += gridDim.x) {
        const float* __restrict__ xp = x + p * (int64_t)H * W;
        float* __restrict__ op = out + p * (int64_t)OH * OW;
        for (int i = blockIdx.y * kThreads + threadIdx.x; i < n_strips;
             i += gridDim.y * kThreads) {
            const int s = i / OW;
            const int ow = i - s * OW;
            const int oh0 = s * kStrip;
            const int wc = 2 * ow;
            const int w0 = max(wc - 1, 0), w1 = min(wc + 1, W - 1);
            // Clamped coordinates stay inside the window of every output that
            // is stored (a repeated element does not change a maximum), so all
            // loads are unconditional, and all come before the first use.
            float a[kRows], b[kRows], c[kRows];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const int h = min(max(2 * oh0 - 1 + r, 0), H - 1);
                const float* __restrict__ row = xp + (int64_t)h * W;
                a[r] = __ldg(row + w0);
                b[r] = __ldg(row + wc);
                c[r] = __ldg(row + w1);
            }
            // Each input row is reduced once; the odd ones serve two outputs.
            float prev = max_nan(max_nan(a[0], b[0]), c[0]);
            float* __restrict__ o = op + (int64_t)oh0 * OW + ow;
#pragma unroll
            for (int k = 0; k < kStrip; ++k) {
                const int r1 = 2 * k + 1, r2 = 2 * k + 2;
                const float mid = max_nan(max_nan(a[r1], b[r1]), c[r1]);
                const float next = max_nan(max_nan(a[r2], b[r2]), c[r2]);
                const float m = max_nan(max_nan(prev, mid), next);
                if (oh0 + k < OH) __stcs(o + (int64_t)k * OW, m);
                prev = next;
            }
        }
    }
}

// Rows of a multiple of 4: a thread takes a strip of two neighbouring output
// columns, which is one float4 of each input row and the element left of it.
__global__ void __launch_bounds__(kThreads)
max_pool_kernel_vec(float* __restrict__ out, const float* __restrict__ x,
                    int64_t planes, int H, int W, int OH, int OW) {
    const int Q = W >> 2;                                   // float4 of a row
    const int n_strips = (OH + kStrip - 1) / kStrip * Q;    // of one plane
    const int lane = threadIdx.x & 31;
    for (int64_t p = blockIdx.x; p < planes; p += gridDim.x) {
        const float* __restrict__ xp = x + p * (int64_t)H * W;
        float* __restrict__ op = out + p * (int64_t)OH * OW;
        // The trip count is the same for the whole block: the shuffles need
        // all lanes. Lanes past the end repeat the last strip and store nothing;
        // the left neighbour of a lane that stores is never one of them.
        for (int base = blockIdx.y * kThreads; base < n_strips;
             base += gridDim.y * kThreads) {
            const int i0 = base + (int)threadIdx.x;
            const int i = min(i0, n_strips - 1);
            const int s = i / Q;
            const int q = i - s * Q;
            const int oh0 = s * kStrip;
            const bool load_left = lane == 0 && q > 0;
            float4 v[kRows];
            float l[kRows];
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const int h = min(max(2 * oh0 - 1 + r, 0), H - 1);
                const float* __restrict__ row = xp + (int64_t)h * W + 4 * q;
                v[r] = __ldg(reinterpret_cast<const float4*>(row));
                l[r] = 0.0f;
                if (load_left) l[r] = __ldg(row - 1);
            }
            float p0 = 0.0f, p1 = 0.0f, m0 = 0.0f, m1 = 0.0f;
            float* __restrict__ o = op + (int64_t)oh0 * OW + 2 * q;
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const float up = __shfl_up_sync(0xffffffffu, v[r].w, 1);
                float left = lane == 0 ? l[r] : up;
                if (q == 0) left = v[r].x;       // padding: repeat an element
                const float a = max_nan(max_nan(left, v[r].x), v[r].y);
                const float b = max_nan(max_nan(v[r].y, v[r].z), v[r].w);
                if (r == 0) {
                    p0 = a; p1 = b;
                } else if (r & 1) {              // middle row of a window
                    m0 = max_nan(p0, a);
                    m1 = max_nan(p1, b);
                } else {                         // last row, first of the next
                    const int k = r / 2 - 1;
                    if (i0 < n_strips && oh0 + k < OH)
                        __stcs(reinterpret_cast<float2*>(o + (int64_t)k * OW),
                               make_float2(max_nan(m0, a), max_nan(m1, b)));
                    p0 = a; p1 = b;
                }
            }
        }
    }
}

}  // namespace

extern "C" void launch_gpu_implementation(
    float* out,
    const float* x,
    int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3, int64_t out_2, int64_t out_3,
    cudaStream_t stream) {
    const int64_t planes = x_0 * x_1;
    const bool vec = x_3 % 4 == 0 && out_3 * 2 == x_3;
    const int64_t n_strips =
        (out_2 + kStrip - 1) / kStrip * (vec ? x_3 / 4 : out_3);
    if (planes <= 0 || n_strips <= 0) return;
    int64_t gx = planes < 2147483647 ? planes : 2147483647;
    int64_t gy = (n_strips + kThreads - 1) / kThreads;
    if (gy > 65535) gy = 65535;
    dim3 grid((unsigned)gx, (unsigned)gy);
    if (vec)
        max_pool_kernel_vec<<<grid, kThreads, 0, stream>>>(
            out, x, planes, (int)x_2, (int)x_3, (int)out_2, (int)out_3);
    else
        max_pool_kernel<<<grid, kThreads, 0, stream>>>(
            out, x, planes, (int)x_2, (int)x_3, (int)out_2, (int)out_3);
}
