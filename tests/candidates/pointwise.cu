// task: core/level1/gelu
// family: pointwise
// plant: the tanh approximation of GELU instead of the error function

__device__ float gelu(float v) {
#ifdef PLANTED_ERROR
    return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
#else
    return v * normcdff(v);
#endif
}

__global__ void gelu_all(float* out, const float* x, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n / 4) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(out)[i] = {gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w)};
    } else if (i - n / 4 < n % 4) {
        int64_t tail = n / 4 * 4 + (i - n / 4);
        out[tail] = gelu(x[tail]);
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    int64_t n = x_0 * x_1, threads = n / 4 + n % 4;
    gelu_all<<<unsigned((threads + 255) / 256), 256, 0, stream>>>(out, x, n);
}
