// The power of two that takes a number to the upper end of half precision, so that as little as can be
// falls off the lower end; within bounds that keep it and its inverse far from the ends of float.
__device__ float scale_for(float largest) {
  const int exponent = (int)(__float_as_uint(largest) >> 23) - 14;
  return __uint_as_float((unsigned)min(max(exponent, 27), 227) << 23);
}

// The largest of the four lanes that have one row; their numbers differ by `first` and twice that.
__device__ float largest_of_row(float value, int first) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, first));
  return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2 * first));
}
