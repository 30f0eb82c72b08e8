// The value of the lane `distance` before this one; lanes that have none there get their own.
template <typename T>
__device__ T from_lane_before(T value, int distance) {
  if constexpr (sizeof(T) < 4) {
    return (T)__shfl_up_sync(0xffffffffu, (int)value, distance);
  } else {
    #pragma unroll
    for (int word = 0; word < (int)(sizeof(T) / 4); ++word) {
      uint32_t& part = reinterpret_cast<uint32_t*>(&value)[word];
      part = __shfl_up_sync(0xffffffffu, part, distance);
    }
    return value;
  }
}

// The value of the last lane.
template <typename T>
__device__ T from_last_lane(T value) {
  if constexpr (sizeof(T) < 4) {
    return (T)__shfl_sync(0xffffffffu, (int)value, 31);
  } else {
    #pragma unroll
    for (int word = 0; word < (int)(sizeof(T) / 4); ++word) {
      uint32_t& part = reinterpret_cast<uint32_t*>(&value)[word];
      part = __shfl_sync(0xffffffffu, part, 31);
    }
    return value;
  }
}

// Scans the values of a warp in place: first the vectors of all lanes side by side, then the next ones. Gives
// what all of them are together; `before` is what came before them.
template <int VECTORS, int WIDTH, typename T, typename Combine>
__device__ T scan_warp(T (&values)[VECTORS][WIDTH], T before, Combine combine) {
  const int lane = threadIdx.x % 32;
  #pragma unroll
  for (int k = 0; k < VECTORS; ++k) {
    #pragma unroll
    for (int e = 1; e < WIDTH; ++e) values[k][e] = combine(values[k][e - 1], values[k][e]);
    T total = values[k][WIDTH - 1];
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const T other = from_lane_before(total, distance);
      if (lane >= distance) total = combine(other, total);
    }
    const T earlier = from_lane_before(total, 1);
    const T start = lane > 0 ? combine(before, earlier) : before;
    #pragma unroll
    for (int e = 0; e < WIDTH; ++e) values[k][e] = combine(start, values[k][e]);
    before = combine(before, from_last_lane(total));
  }
  return before;
}

// The same for neighbouring warps of a block that share a row: each has the values that follow those of the one
// before. `before` becomes what came before the next chunk of the row; `nothing` changes no value.
template <int WARPS, int VECTORS, int WIDTH, typename T, typename Combine>
__device__ void scan_chunk(T (&values)[VECTORS][WIDTH], T& before, T nothing, Combine combine) {
  if constexpr (WARPS == 1) {
    before = scan_warp(values, before, combine);
  } else {
    __shared__ T totals[32];
    const int warp = threadIdx.x / 32, first = warp / WARPS * WARPS;
    const T total = scan_warp(values, nothing, combine);
    if (threadIdx.x % 32 == 0) totals[warp] = total;
    __syncthreads();
    T start = before;
    #pragma unroll
    for (int other = 0; other < WARPS; ++other) {
      if (first + other == warp) start = before;
      before = combine(before, totals[first + other]);
    }
    __syncthreads();  // before the memory is used again
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
      #pragma unroll
      for (int e = 0; e < WIDTH; ++e) values[k][e] = combine(start, values[k][e]);
    }
  }
}
