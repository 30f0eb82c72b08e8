// Block-wide sum of squares per row; the size of the shared array is given at launch.
extern __shared__ float scratch[];

__global__ void rms_norm(float* out, const float* in, const float* gain, int rows, int cols, float eps) {
  const float* row = in + (size_t)blockIdx.x * cols;
  float partial = 0.f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) partial += row[c] * row[c];
  scratch[threadIdx.x] = partial;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) scratch[threadIdx.x] += scratch[threadIdx.x + s];
    __syncthreads();
  }
  float scale = rsqrtf(scratch[0] / cols + eps);
  for (int c = threadIdx.x; c < cols; c += blockDim.x) out[(size_t)blockIdx.x * cols + c] = row[c] * scale * gain[c];
}

extern "C" void rms_norm_forward(float* out, const float* in, const float* gain, int rows, int cols, float eps,
                                 cudaStream_t stream) {
  int threads = 256;
  rms_norm<<<rows, threads, threads * sizeof(float), stream>>>(out, in, gain, rows, cols, eps);
}
