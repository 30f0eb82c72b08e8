struct Gelu {
  __device__ float operator()(float v) const { return 0.5f * v * (1.f + erff(v * 0.70710678f)); }
};

template <typename T, typename Op>
__global__ void map_kernel(T* y, const T* x, int n, Op op) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = op(x[i]);
}

template <typename T>
void map_gelu(T* y, const T* x, int n, cudaStream_t stream) {
  map_kernel<T, Gelu><<<1024, 256, 0, stream>>>(y, x, n, Gelu());
}

extern "C" void gelu_forward(float* y, const float* x, int n, cudaStream_t stream) { map_gelu<float>(y, x, n, stream); }
