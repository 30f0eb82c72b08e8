struct Particle {
  float x, y, z, mass;
};

__global__ void kick(Particle* p, int n, float dt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i].x += dt * p[i].mass;
}

extern "C" void advance(Particle* p, int n, float dt, cudaStream_t stream) {
  kick<<<(n + 255) / 256, 256, 0, stream>>>(p, n, dt);
}
