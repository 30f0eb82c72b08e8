// As torch.maximum and torch.minimum: NaN where either operand is NaN, which fmaxf and fminf would drop.
__device__ inline float nan_max(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ inline double nan_max(double a, double b) { return a > b || a != a ? a : b; }

__device__ inline float nan_min(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

__device__ inline double nan_min(double a, double b) { return a < b || a != a ? a : b; }
