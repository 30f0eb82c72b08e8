// The value of the lane whose number differs in the bits of `distance`; `members` are the lanes that ask.
template <typename T>
__device__ T shuffled(T value, int distance, unsigned members = 0xffffffffu) {
  if constexpr (sizeof(T) < 4) {
    return (T)__shfl_xor_sync(members, (int)value, distance);
  } else {
    #pragma unroll
    for (int word = 0; word < (int)(sizeof(T) / 4); ++word) {
      uint32_t& part = reinterpret_cast<uint32_t*>(&value)[word];
      part = __shfl_xor_sync(members, part, distance);
    }
    return value;
  }
}

// Combines one value of each of `LANES` neighbouring lanes; all of them get the result.
template <int LANES = 32, typename T, typename Combine>
__device__ T warp_reduce(T value, Combine combine, unsigned members = 0xffffffffu) {
  #pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffled(value, distance, members));
  }
  return value;
}
