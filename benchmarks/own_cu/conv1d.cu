__global__ void conv1d(const float* signal, const float* filter, float* result, int n, int ksize) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float acc = 0;
    for (int t = 0; t < ksize; t++) {
      int j = i + t - ksize / 2;
      if (j >= 0 && j < n) acc += signal[j] * filter[t];
    }
    result[i] = acc;
  }
}

void launch_conv1d(const float* signal, const float* filter, float* result, int n, int ksize, cudaStream_t stream) {
  const int threads = 128;
  dim3 grid((n + threads - 1) / threads);
  conv1d<<<grid, threads, 0, stream>>>(signal, filter, result, n, ksize);
}
