// Reads 8 neighbours, as two vectors where they are aligned; beyond the end there are zeros.
template <typename T>
__device__ void read_near(T (&to)[8], const T* from, int64_t left) {
  if (left >= 8 && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
    constexpr int vectors = 8 * sizeof(T) / 16;
    #pragma unroll
    for (int v = 0; v < vectors; ++v) {
      reinterpret_cast<uint4*>(to)[v] = reinterpret_cast<const uint4*>(from)[v];
    }
  } else {
    #pragma unroll
    for (int e = 0; e < 8; ++e) to[e] = e < left ? from[e] : T(0);
  }
}
