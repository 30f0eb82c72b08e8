// task: core/level1/embedding
// family: gather
// plant: token numbers are cut to 15 bits, enough for a small vocabulary

__global__ void gather(float* out, const int64_t* tokens, const float* table, int64_t count,
                       int64_t dim) {
    int64_t i = blockIdx.x * int64_t(blockDim.y) + threadIdx.y;
    if (i >= count) return;
    int64_t token = tokens[i];
#ifdef PLANTED_ERROR
    token &= 0x7fff;
#endif
    const float* from = table + token * dim;
    float* to = out + i * dim;
    if (dim % 4 == 0)
        for (int64_t c = threadIdx.x; c < dim / 4; c += 32)
            reinterpret_cast<float4*>(to)[c] = reinterpret_cast<const float4*>(from)[c];
    else
        for (int64_t c = threadIdx.x; c < dim; c += 32) to[c] = from[c];
}

extern "C" void launch_gpu_implementation(float* out, const int64_t* tokens, const float* table_weight,
                                          int64_t tokens_0, int64_t tokens_1, int64_t,
                                          int64_t table_weight_1, cudaStream_t stream) {
    int64_t count = tokens_0 * tokens_1;
    gather<<<unsigned((count + 7) / 8), dim3(32, 8), 0, stream>>>(out, tokens, table_weight, count,
                                                                  table_weight_1);
}
