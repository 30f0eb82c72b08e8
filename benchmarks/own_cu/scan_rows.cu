#define THREADS 256

// inclusive scan of each row, chunk by chunk
__global__ void scan_rows(const float* in, float* out, int rows, int cols) {
  __shared__ float buf[2][THREADS];
  float carry = 0.f;
  for (int start = 0; start < cols; start += THREADS) {
    int c = start + threadIdx.x, from = 0;
    buf[0][threadIdx.x] = c < cols ? in[blockIdx.x * cols + c] : 0.f;
    __syncthreads();
    for (int d = 1; d < THREADS; d *= 2) {
      float v = buf[from][threadIdx.x];
      if (threadIdx.x >= d) v += buf[from][threadIdx.x - d];
      buf[1 - from][threadIdx.x] = v;
      from = 1 - from;
      __syncthreads();
    }
    if (c < cols) out[blockIdx.x * cols + c] = buf[from][threadIdx.x] + carry;
    carry += buf[from][THREADS - 1];
    __syncthreads();
  }
}

void scan(const float* in, float* out, int rows, int cols) { scan_rows<<<rows, THREADS>>>(in, out, rows, cols); }
