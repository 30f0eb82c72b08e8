// task: core/level1/embedding
// family: gather
// kernelblaster-tune: LANES = 1, 4, 32
// kernelblaster-tune: WIDE = 0, 1
#ifndef LANES
#define LANES 32
#endif
#ifndef WIDE
#define WIDE 1
#endif

static const int THREADS = 128;

// LANES threads copy one row of the table; with one, every lane of a warp is in another row.
__global__ void gather(float* out, const int64_t* tokens, const float* table, int64_t count, int64_t dim) {
    int64_t i = blockIdx.x * int64_t(THREADS / LANES) + threadIdx.x / LANES;
    if (i >= count) return;
    const float* from = table + tokens[i] * dim;
    float* to = out + i * dim;
    int64_t quads = WIDE && dim % 4 == 0 ? dim / 4 : 0, lane = threadIdx.x % LANES;
    for (int64_t c = lane; c < quads; c += LANES)
        reinterpret_cast<float4*>(to)[c] = reinterpret_cast<const float4*>(from)[c];
    for (int64_t c = 4 * quads + lane; c < dim; c += LANES) to[c] = from[c];
}

extern "C" void launch_gpu_implementation(float* out, const int64_t* tokens, const float* table_weight,
                                          int64_t tokens_0, int64_t tokens_1, int64_t,
                                          int64_t table_weight_1, cudaStream_t stream) {
    int64_t count = tokens_0 * tokens_1, share = THREADS / LANES;
    gather<<<unsigned((count + share - 1) / share), THREADS, 0, stream>>>(out, tokens, table_weight, count,
                                                                          table_weight_1);
}
