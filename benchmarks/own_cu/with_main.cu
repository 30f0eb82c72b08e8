#include <cstdio>

__global__ void square(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= a[i];
}

int main() {
  int n = 1 << 20;
  float* a;
  cudaMallocManaged(&a, n * sizeof(float));
  square<<<(n + 255) / 256, 256>>>(a, n);
  cudaDeviceSynchronize();
  printf("%f\n", a[0]);
}
