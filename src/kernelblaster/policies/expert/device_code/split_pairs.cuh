// Copies 16 bytes to shared memory without waiting for them; with `bytes` 0 they become 0.
__device__ inline void copy_or_clear(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ inline float shared_float(uint32_t from) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from));
  return value;
}

// Two numbers as one register of type T.
template <typename T>
__device__ uint32_t as_pair(float2 values);

template <>
__device__ inline uint32_t as_pair<__half>(float2 values) {
  const __half2 pair = __float22half2_rn(values);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <>
__device__ inline uint32_t as_pair<__nv_bfloat16>(float2 values) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(values);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ float2 from_pair(uint32_t pair);

template <>
__device__ inline float2 from_pair<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

template <>
__device__ inline float2 from_pair<__nv_bfloat16>(uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000)};
}

// Splits two numbers into TERMS pairs of type T, whose sum they are; `place` says where each pair goes.
template <typename T, int TERMS, typename Place>
__device__ __forceinline__ void split_pair(float2 values, Place place) {
  #pragma unroll
  for (int term = 0; term < TERMS; ++term) {
    const uint32_t pair = as_pair<T>(values);
    place(term) = pair;
    const float2 taken = from_pair<T>(pair);
    values = {values.x - taken.x, values.y - taken.y};
  }
}
