// seven-point stencil on a cube, boundary copied
__global__ void heat(const double* __restrict__ u, double* __restrict__ v, int nx, int ny, int nz, double k) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  int i = (z * ny + y) * nx + x;
  if (x == 0 || y == 0 || z == 0 || x == nx - 1 || y == ny - 1 || z == nz - 1) {
    v[i] = u[i];
    return;
  }
  v[i] = u[i] + k * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + u[i - nx * ny] + u[i + nx * ny] - 6.0 * u[i]);
}

extern "C" void heat_step(const double* u, double* v, int nx, int ny, int nz, double k, cudaStream_t stream) {
  dim3 block(32, 8);
  heat<<<dim3((nx + 31) / 32, (ny + 7) / 8, nz), block, 0, stream>>>(u, v, nx, ny, nz, k);
}
