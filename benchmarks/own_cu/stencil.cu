// 5-point stencil; the thread's x runs over rows, as in the CPU version
__global__ void heat(double* next, const double* cur, int ny, int nx) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= ny || j >= nx) return;
  double c = cur[i * nx + j];
  double up = i > 0 ? cur[(i - 1) * nx + j] : c;
  double down = i + 1 < ny ? cur[(i + 1) * nx + j] : c;
  double left = j > 0 ? cur[i * nx + j - 1] : c;
  double right = j + 1 < nx ? cur[i * nx + j + 1] : c;
  next[i * nx + j] = c + 0.1 * (up + down + left + right - 4 * c);
}

void step(double* next, const double* cur, int ny, int nx, cudaStream_t st) {
  dim3 threads(16, 16);
  dim3 blocks((ny + threads.x - 1) / threads.x, (nx + threads.y - 1) / threads.y);
  heat<<<blocks, threads, 0, st>>>(next, cur, ny, nx);
}
