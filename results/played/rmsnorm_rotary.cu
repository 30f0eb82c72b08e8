// Combines one value of each thread of the block, pair by pair; every thread gets the result.
template <typename T, typename Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T partial[1024];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  T result = partial[0];
  __syncthreads();  // before the memory is used again
  return result;
}

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const { return a + b; }
};

__global__ void __launch_bounds__(256) pow_1_kernel(
    float* __restrict__ pow_1_result, const float* __restrict__ x, int64_t x_0, int64_t x_1,
    int64_t x_2, int64_t x_3) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * x_3) return;
  pow_1_result[i] = x[i] * x[i];
}

// The same with half = 64 and whole tiles of 32 heads of one position: a block takes a tile, which is
// contiguous; 16 lanes take two heads. Nothing needs a bound.
__global__ void __launch_bounds__(256, 5) rms_rotary_64_kernel(
    float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ cos,
    const float* __restrict__ sin, const float* __restrict__ weight, unsigned x_1,
    unsigned tiles_of_position) {
  constexpr int HALF = 64;
  constexpr int ROW = 2 * HALF;
  constexpr int SECOND = 16 * ROW;  // from a lane's first head to its second
  const unsigned column = (threadIdx.x % 16) * 4;
  const int64_t start =
      (int64_t)blockIdx.x * (32 * ROW) + (threadIdx.x / 16) * ROW + column;
  const float* from = x + start;
  const float4 a0 = __ldcs(reinterpret_cast<const float4*>(from));
  const float4 b0 = __ldcs(reinterpret_cast<const float4*>(from + HALF));
  const float4 a1 = __ldcs(reinterpret_cast<const float4*>(from + SECOND));
  const float4 b1 = __ldcs(reinterpret_cast<const float4*>(from + SECOND + HALF));

  const unsigned i1 = (blockIdx.x / tiles_of_position) % x_1;
  const int64_t angle = (int64_t)i1 * HALF + column;
  const float4 c = __ldg(reinterpret_cast<const float4*>(cos + angle));
  const float4 s = __ldg(reinterpret_cast<const float4*>(sin + angle));
  const float4 w0 = __ldg(reinterpret_cast<const float4*>(weight + column));
  const float4 w1 = __ldg(reinterpret_cast<const float4*>(weight + HALF + column));

  float sum0 = (a0.x * a0.x + a0.y * a0.y) + (a0.z * a0.z + a0.w * a0.w) +
               ((b0.x * b0.x + b0.y * b0.y) + (b0.z * b0.z + b0.w * b0.w));
  float sum1 = (a1.x * a1.x + a1.y * a1.y) + (a1.z * a1.z + a1.w * a1.w) +
               ((b1.x * b1.x + b1.y * b1.y) + (b1.z * b1.z + b1.w * b1.w));
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) {
    sum0 += __shfl_xor_sync(0xffffffffu, sum0, offset);
    sum1 += __shfl_xor_sync(0xffffffffu, sum1, offset);
  }
  float* to = out + start;
  {
    const float scale = rsqrtf(sum0 * (1.0f / ROW) + 1e-6f);
    const float4 f = make_float4(a0.x * scale * w0.x, a0.y * scale * w0.y, a0.z * scale * w0.z,
                                 a0.w * scale * w0.w);
    const float4 g = make_float4(b0.x * scale * w1.x, b0.y * scale * w1.y, b0.z * scale * w1.z,
                                 b0.w * scale * w1.w);
    __stcs(reinterpret_cast<float4*>(to),
           make_float4(f.x * c.x - g.x * s.x, f.y * c.y - g.y * s.y, f.z * c.z - g.z * s.z,
                       f.w * c.w - g.w * s.w));
    __stcs(reinterpret_cast<float4*>(to + HALF),
           make_float4(g.x * c.x + f.x * s.x, g.y * c.y + f.y * s.y, g.z * c.z + f.z * s.z,
                       g.w * c.w + f.w * s.w));
  }
  {
    const float scale = rsqrtf(sum1 * (1.0f / ROW) + 1e-6f);
    const float4 f = make_float4(a1.x * scale * w0.x, a1.y * scale * w0.y, a1.z * scale * w0.z,
                                 a1.w * scale * w0.w);
    const float4 g = make_float4(b1.x * scale * w1.x, b1.y * scale * w1.y, b1.z * scale * w1.z,
                                 b1.w * scale * w1.w);
    __stcs(reinterpret_cast<float4*>(to + SECOND),
           make_float4(f.x * c.x - g.x * s.x, f.y * c.y - g.y * s.y, f.z * c.z - g.z * s.z,
                       f.w * c.w - g.w * s.w));
    __stcs(reinterpret_cast<float4*>(to + SECOND + HALF),
           make_float4(g.x * c.x + f.x * s.x, g.y * c.y + f.y * s.y, g.z * c.z + f.z * s.z,
                       g.w * c.w + f.w * s.w));
  }
}

// RMS normalization of each head and rotation of its halves, in one pass.
// A block takes one position (i0, i1), a group of GROUP lanes takes two heads at a time; a lane holds
// four elements of the first half and the matching four of the second half.
// Needs x_3 == 2 * half, half % 4 == 0, half <= 4 * GROUP.
template <int GROUP>
__global__ void __launch_bounds__(256) rms_rotary_kernel(
    float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ cos,
    const float* __restrict__ sin, const float* __restrict__ weight, int x_1, int64_t x_2,
    int half) {
  constexpr int GROUPS = 256 / GROUP;
  constexpr int ROWS = 2;
  const int lane = threadIdx.x % GROUP;
  const int group = threadIdx.x / GROUP;
  const int column = lane * 4;
  const bool active = column < half;
  const int position = blockIdx.x;
  const int i1 = position % x_1;
  const int64_t row_size = 2 * (int64_t)half;
  const int64_t start = (int64_t)position * x_2 * row_size + column;
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  const float inverse_size = 1.0f / (float)(2 * half);

  float4 c = zero, s = zero, w0 = zero, w1 = zero;
  if (active) {
    c = __ldg(reinterpret_cast<const float4*>(cos + (int64_t)i1 * half + column));
    s = __ldg(reinterpret_cast<const float4*>(sin + (int64_t)i1 * half + column));
    w0 = __ldg(reinterpret_cast<const float4*>(weight + column));
    w1 = __ldg(reinterpret_cast<const float4*>(weight + half + column));
  }

  // The bounds are the same for all threads, so that whole warps reach the shuffles.
  for (int64_t base = 0; base < x_2; base += ROWS * GROUPS) {
    float4 a[ROWS], b[ROWS];
    float sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int64_t head = base + r * GROUPS + group;
      a[r] = zero;
      b[r] = zero;
      if (active && head < x_2) {
        const float* from = x + start + head * row_size;
        a[r] = __ldcs(reinterpret_cast<const float4*>(from));
        b[r] = __ldcs(reinterpret_cast<const float4*>(from + half));
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      sum[r] = (a[r].x * a[r].x + a[r].y * a[r].y) + (a[r].z * a[r].z + a[r].w * a[r].w) +
               ((b[r].x * b[r].x + b[r].y * b[r].y) + (b[r].z * b[r].z + b[r].w * b[r].w));
    }
#pragma unroll
    for (int offset = GROUP / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], offset);
      }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int64_t head = base + r * GROUPS + group;
      if (active && head < x_2) {
        const float scale = rsqrtf(sum[r] * inverse_size + 1e-6f);
        const float4 f = make_float4(a[r].x * scale * w0.x, a[r].y * scale * w0.y,
                                     a[r].z * scale * w0.z, a[r].w * scale * w0.w);
        const float4 g = make_float4(b[r].x * scale * w1.x, b[r].y * scale * w1.y,
                                     b[r].z * scale * w1.z, b[r].w * scale * w1.w);
        float* to = out + start + head * row_size;
        __stcs(reinterpret_cast<float4*>(to),
               make_float4(f.x * c.x - g.x * s.x, f.y * c.y - g.y * s.y,
                           f.z * c.z - g.z * s.z, f.w * c.w - g.w * s.w));
        __stcs(reinterpret_cast<float4*>(to + half),
               make_float4(g.x * c.x + f.x * s.x, g.y * c.y + f.y * s.y,
                           g.z * c.z + f.z * s.z, g.w * c.w + f.w * s.w));
      }
    }
  }
}

// Any other size: a warp for each row, element by element.
__global__ void __launch_bounds__(256) rms_rotary_any_kernel(
    float* __restrict__ out, const float* __restrict__ x, const float* __restrict__ cos,
    const float* __restrict__ sin, const float* __restrict__ weight, int64_t rows, int64_t x_1,
    int64_t x_2, int64_t x_3, int64_t cos_1) {
  const int lane = threadIdx.x % 32;
  const int64_t row = (int64_t)blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) {
    return;  // whole warps
  }
  const int64_t i1 = (row / x_2) % x_1;
  const float* from = x + row * x_3;
  float* to = out + row * x_3;
  float sum = 0.f;
  for (int64_t j = lane; j < x_3; j += 32) {
    const float v = from[j];
    sum += v * v;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  const float scale = rsqrtf(sum / (float)x_3 + 1e-6f);
  for (int64_t j = lane; j < cos_1; j += 32) {
    const float c = cos[i1 * cos_1 + j];
    const float s = sin[i1 * cos_1 + j];
    const float f = from[j] * scale * weight[j];
    const float g = from[cos_1 + j] * scale * weight[cos_1 + j];
    to[j] = f * c - g * s;
    to[cos_1 + j] = g * c + f * s;
  }
}


__global__ void __launch_bounds__(256) add_kernel(
    float* __restrict__ add_result, const float* __restrict__ mean_result, int64_t x_0,
    int64_t x_1, int64_t x_2) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2) return;
  add_result[i] = mean_result[i] + 1e-06f;
}

__global__ void __launch_bounds__(256) rsqrt_kernel(
    float* __restrict__ rsqrt_result, const float* __restrict__ add_result, int64_t x_0,
    int64_t x_1, int64_t x_2) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2) return;
  rsqrt_result[i] = rsqrtf(add_result[i]);
}

__global__ void __launch_bounds__(256) mul_kernel(
    float* __restrict__ mul_result, const float* __restrict__ x,
    const float* __restrict__ rsqrt_result, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * x_3) return;
  const int64_t i0 = i / (x_1 * x_2 * x_3);
  const int64_t i1 = (i / (x_2 * x_3)) % x_1;
  const int64_t i2 = (i / x_3) % x_2;
  mul_result[i] = x[i] * rsqrt_result[(i0 * x_1 + i1) * x_2 + i2];
}

__global__ void __launch_bounds__(256) mul_1_kernel(
    float* __restrict__ mul_1_result, const float* __restrict__ mul_result,
    const float* __restrict__ weight, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * x_3) return;
  const int64_t i3 = i % x_3;
  mul_1_result[i] = mul_result[i] * weight[i3];
}

__global__ void __launch_bounds__(256) mul_2_kernel(
    float* __restrict__ mul_2_result, const float* __restrict__ mul_1_result,
    const float* __restrict__ cos, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3,
    int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  const int64_t i0 = i / (x_1 * x_2 * cos_1);
  const int64_t i1 = (i / (x_2 * cos_1)) % x_1;
  const int64_t i2 = (i / cos_1) % x_2;
  const int64_t i3 = i % cos_1;
  mul_2_result[((i0 * x_1 + i1) * x_2 + i2) * cos_1 + i3] = mul_1_result[((i0 * x_1 + i1) * x_2 + i2) * x_3 + i3] * cos[i1 * cos_1 + i3];
}

__global__ void __launch_bounds__(256) mul_3_kernel(
    float* __restrict__ mul_3_result, const float* __restrict__ mul_1_result,
    const float* __restrict__ sin, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3,
    int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  const int64_t i0 = i / (x_1 * x_2 * cos_1);
  const int64_t i1 = (i / (x_2 * cos_1)) % x_1;
  const int64_t i2 = (i / cos_1) % x_2;
  const int64_t i3 = i % cos_1;
  mul_3_result[i] = mul_1_result[((i0 * x_1 + i1) * x_2 + i2) * x_3 + (i3 + cos_1)] * sin[i1 * cos_1 + i3];
}

__global__ void __launch_bounds__(256) sub_kernel(
    float* __restrict__ sub_result, const float* __restrict__ mul_2_result,
    const float* __restrict__ mul_3_result, int64_t x_0, int64_t x_1, int64_t x_2, int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  sub_result[i] = mul_2_result[i] - mul_3_result[i];
}

__global__ void __launch_bounds__(256) mul_4_kernel(
    float* __restrict__ mul_4_result, const float* __restrict__ mul_1_result,
    const float* __restrict__ cos, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3,
    int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  const int64_t i0 = i / (x_1 * x_2 * cos_1);
  const int64_t i1 = (i / (x_2 * cos_1)) % x_1;
  const int64_t i2 = (i / cos_1) % x_2;
  const int64_t i3 = i % cos_1;
  mul_4_result[i] = mul_1_result[((i0 * x_1 + i1) * x_2 + i2) * x_3 + (i3 + cos_1)] * cos[i1 * cos_1 + i3];
}

__global__ void __launch_bounds__(256) mul_5_kernel(
    float* __restrict__ mul_5_result, const float* __restrict__ mul_1_result,
    const float* __restrict__ sin, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3,
    int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  const int64_t i0 = i / (x_1 * x_2 * cos_1);
  const int64_t i1 = (i / (x_2 * cos_1)) % x_1;
  const int64_t i2 = (i / cos_1) % x_2;
  const int64_t i3 = i % cos_1;
  mul_5_result[((i0 * x_1 + i1) * x_2 + i2) * cos_1 + i3] = mul_1_result[((i0 * x_1 + i1) * x_2 + i2) * x_3 + i3] * sin[i1 * cos_1 + i3];
}

__global__ void __launch_bounds__(256) add_1_kernel(
    float* __restrict__ add_1_result, const float* __restrict__ mul_4_result,
    const float* __restrict__ mul_5_result, int64_t x_0, int64_t x_1, int64_t x_2, int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * cos_1) return;
  add_1_result[i] = mul_4_result[i] + mul_5_result[i];
}

__global__ void __launch_bounds__(256) cat_kernel(
    float* __restrict__ out, const float* __restrict__ sub_result,
    const float* __restrict__ add_1_result, int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3,
    int64_t cos_1) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= x_0 * x_1 * x_2 * x_3) return;
  const int64_t i0 = i / (x_1 * x_2 * x_3);
  const int64_t i1 = (i / (x_2 * x_3)) % x_1;
  const int64_t i2 = (i / x_3) % x_2;
  const int64_t i3 = i % x_3;
  out[((i0 * x_1 + i1) * x_2 + i2) * x_3 + i3] = (i3 < cos_1) ? sub_result[((i0 * x_1 + i1) * x_2 + i2) * cos_1 + i3] : add_1_result[((i0 * x_1 + i1) * x_2 + i2) * cos_1 + (i3 - cos_1)];
}

extern "C" void launch_gpu_implementation(
    float* out,
    const float* x,
    const float* cos,
    const float* sin,
    const float* weight,
    int64_t x_0,
    int64_t x_1,
    int64_t x_2,
    int64_t x_3,
    int64_t cos_1,
    cudaStream_t stream) {
  const int64_t positions = x_0 * x_1;
  const int64_t rows = positions * x_2;
  if (rows <= 0 || x_3 <= 0) {
    return;
  }
  const bool wide = x_3 == 2 * cos_1 && cos_1 % 4 == 0 && cos_1 <= 128 && positions < 2147483647;
  if (wide && cos_1 == 64 && x_2 % 32 == 0 && rows / 32 < 2147483647) {
    rms_rotary_64_kernel<<<(unsigned)(rows / 32), 256, 0, stream>>>(
        out, x, cos, sin, weight, (unsigned)x_1, (unsigned)(x_2 / 32));
  } else if (wide && cos_1 <= 64) {
    rms_rotary_kernel<16><<<(unsigned)positions, 256, 0, stream>>>(
        out, x, cos, sin, weight, (int)x_1, x_2, (int)cos_1);
  } else if (wide) {
    rms_rotary_kernel<32><<<(unsigned)positions, 256, 0, stream>>>(
        out, x, cos, sin, weight, (int)x_1, x_2, (int)cos_1);
  } else {
    rms_rotary_any_kernel<<<(unsigned)((rows + 7) / 8), 256, 0, stream>>>(
        out, x, cos, sin, weight, rows, x_1, x_2, x_3, cos_1);
  }
}
