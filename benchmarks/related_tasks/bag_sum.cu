__global__ void bag_sum(float* out, const float* table, const int64_t* index, int64_t bags, int64_t length,
                        int64_t dim) {
  const int64_t bag = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (bag >= bags) return;
  for (int64_t k = 0; k < dim; ++k) {
    float sum = 0.0f;
    for (int64_t i = 0; i < length; ++i) sum += table[index[bag * length + i] * dim + k];
    out[bag * dim + k] = sum;
  }
}

extern "C" void launch_gpu_implementation(
    float* out, const float* table, const int64_t* index, int64_t table_0, int64_t table_1, int64_t
    index_0, int64_t index_1,
    cudaStream_t stream) {
  bag_sum<<<(unsigned)((index_0 + 63) / 64), 64, 0, stream>>>(out, table, index, index_0, index_1, table_1);
}
