// task: core/level2/scale_mask_softmax
// family: fused softmax
// plant: hidden scores are left out entirely, so a row in which all are hidden becomes zero, not uniform

static const float SCALE = 0.125f, HIDDEN = -1e4f;
static const int THREADS = 128;

__device__ float block_reduce(float v, bool maximum) {
    __shared__ float warps[THREADS / 32];
    for (int o = 16; o > 0; o /= 2) {
        float other = __shfl_xor_sync(~0u, v, o);
        v = maximum ? fmaxf(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[0];
    for (int w = 1; w < THREADS / 32; ++w) v = maximum ? fmaxf(v, warps[w]) : v + warps[w];
    return v;
}

// A block a row of scores; the mask's row is shared by all heads.
__global__ void __launch_bounds__(THREADS)
masked_softmax(float* out, const float* scores, const bool* mask, int64_t heads, int64_t queries,
               int64_t keys) {
    int64_t row = blockIdx.x, query = row % queries, image = row / queries / heads;
    scores += row * keys;
    out += row * keys;
    mask += (image * queries + query) * keys;
    auto score = [&](int64_t c) { return mask[c] ? HIDDEN : scores[c] * SCALE; };
    float top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < keys; c += THREADS) top = fmaxf(top, score(c));
    top = block_reduce(top, true);
#ifdef PLANTED_ERROR
    for (int64_t c = threadIdx.x; c < keys; c += THREADS)
        if (!mask[c]) sum += expf(score(c) - top);
    sum = block_reduce(sum, false);
    for (int64_t c = threadIdx.x; c < keys; c += THREADS)
        out[c] = mask[c] ? 0 : expf(score(c) - top) / sum;
#else
    for (int64_t c = threadIdx.x; c < keys; c += THREADS) sum += expf(score(c) - top);
    sum = block_reduce(sum, false);
    for (int64_t c = threadIdx.x; c < keys; c += THREADS) out[c] = expf(score(c) - top) / sum;
#endif
}

extern "C" void launch_gpu_implementation(float* out, const float* scores, const bool* mask,
                                          int64_t scores_0, int64_t scores_1, int64_t scores_2,
                                          int64_t scores_3, cudaStream_t stream) {
    int64_t rows = scores_0 * scores_1 * scores_2;
    masked_softmax<<<unsigned(rows), THREADS, 0, stream>>>(out, scores, mask, scores_1, scores_2,
                                                           scores_3);
}
