#include <cstdint>
// rows of an embedding table
__global__ void gather_rows(const float* table, const int64_t* ids, float* out, int count, int dim) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count * dim) return;
  int r = i / dim, c = i % dim;
  out[i] = table[ids[r] * dim + c];
}

void gather(const float* table, const int64_t* ids, float* out, int count, int dim, cudaStream_t stream) {
  gather_rows<<<(count * dim + 127) / 128, 128, 0, stream>>>(table, ids, out, count, dim);
}
