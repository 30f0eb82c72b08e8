__global__ void histogram_kernel(const int* values, int* counts, int n, int num_bins) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counts[values[i]], 1);
}

extern "C" void histogram(const int* values, int* counts, int n, int num_bins, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, num_bins * sizeof(int), stream);
  const int block = 512;
  histogram_kernel<<<(n + block - 1) / block, block, 0, stream>>>(values, counts, n, num_bins);
}
