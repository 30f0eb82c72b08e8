#define BINS 256

__global__ void histogram256(const unsigned char* pixels, unsigned int* bins, int n) {
  __shared__ unsigned int local[BINS];
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[pixels[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < BINS; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

extern "C" void histogram_of_image(const unsigned char* pixels, unsigned int* bins, int n, cudaStream_t stream) {
  cudaMemsetAsync(bins, 0, BINS * sizeof(unsigned int), stream);
  histogram256<<<264, 256, 0, stream>>>(pixels, bins, n);
}
