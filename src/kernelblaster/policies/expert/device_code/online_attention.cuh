#include "tensor_cores.cuh"
#include "split_pairs.cuh"

// One matrix of a packed operand: slabs of 64 rows, each of `tiles` tiles of 32 elements; with two terms, a
// scale for each row of four tiles. `rows` are those in memory, padding included.
template <typename T>
struct PackedMatrix {
  const T* terms;
  const float* scales;
  int rows, tiles;
};

// Attention of one block of queries: softmax(scores) * values, with scores = queries * keys, one tile of keys
// after another. The sums so far are scaled down whenever a tile has a larger score (online softmax), so that
// no score is ever in memory. A warp has FRAGMENTS * 16 queries, and all scores of these.
//
// Queries and keys have TERMS terms of type T, values and weights VALUE_TERMS of type V; products of terms that
// lie below the last bit are left out. Tensor cores cut off what does not fit when they add: what they add up
// for one tile is therefore added to ordinary sums. Shared memory has DEPTH tiles of 32 elements of queries and
// keys; what is beyond is read from memory.
template <typename T, int TERMS, typename V, int VALUE_TERMS, int FRAGMENTS, int WARPS, int KEYS, int DEPTH, int WIDTH>
struct OnlineAttention {
  static constexpr int ROWS = FRAGMENTS * 16, BLOCK = WARPS * ROWS, THREADS = WARPS * 32;
  static constexpr int LINE = 64;  // bytes of a row of a tile
  static constexpr int PARTS = (DEPTH + 3) / 4;
  static constexpr int QUERY_BYTES = DEPTH * TERMS * BLOCK * LINE, KEY_BYTES = DEPTH * TERMS * KEYS * LINE;
  static constexpr int VALUE_BYTES = KEYS / 32 * VALUE_TERMS * WIDTH * LINE;
  static constexpr int STAGE = KEY_BYTES + VALUE_BYTES + (TERMS == 2 ? PARTS * KEYS * 4 : 0);

  PackedMatrix<T> queries, keys;
  PackedMatrix<V> values;
  int first_query, first_value;
  uint32_t memory;
  float sums[FRAGMENTS][WIDTH / 8][4], largest[FRAGMENTS][2], total[FRAGMENTS][2];

  // Copies `tiles` tiles of COUNT rows to shared memory, as [tile][term][row]; those behind the end are 0.
  template <int COUNT, int EACH, typename P>
  __device__ __forceinline__ static void copy_rows(
      uint32_t to, const PackedMatrix<P>& from, int first_row, int first_tile, int tiles) {
    const P* slab = from.terms + ((int64_t)(first_row / 64) * from.tiles + first_tile) * (EACH * 2048);
    const int last = from.rows - 1 - first_row / 64 * 64;
    #pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const int bytes = first_tile + tile < from.tiles ? 16 : 0;
      #pragma unroll
      for (int place = threadIdx.x; place < EACH * COUNT * 4; place += THREADS) {
        const int term = place / (COUNT * 4), row = min(first_row % 64 + place / 4 % COUNT, last);
        const int tile_there = row / 64 * from.tiles + (bytes > 0 ? tile : 0);
        const int offset = (tile_there * EACH + term) * 2048 + row % 64 * 32 + place % 4 * 8;
        copy_or_clear(to + (tile * EACH * COUNT * 4 + place) * 16, slab + offset, bytes);
      }
    }
  }

  __device__ __forceinline__ uint32_t stage(int tile) const {
    return memory + QUERY_BYTES + tile % 2 * STAGE;
  }

  // Starts to copy a tile of keys and values.
  __device__ __forceinline__ void fetch(int tile) {
    const uint32_t to = stage(tile);
    copy_rows<KEYS, TERMS>(to, keys, tile * KEYS, 0, min(DEPTH, keys.tiles));
    copy_rows<WIDTH, VALUE_TERMS>(to + KEY_BYTES, values, first_value, tile * (KEYS / 32), KEYS / 32);
    if (TERMS == 2 && threadIdx.x < KEYS / 4) {
      for (int part = 0; part < min(PARTS, (keys.tiles + 3) / 4); ++part) {
        const float* from = keys.scales + (int64_t)part * keys.rows + tile * KEYS + threadIdx.x * 4;
        copy_or_clear(to + KEY_BYTES + VALUE_BYTES + (part * KEYS + threadIdx.x * 4) * 4, from, 16);
      }
    }
    asm volatile("cp.async.commit_group;");
  }

  __device__ __forceinline__ void start(unsigned char* shared, int first_tile, int end_tile) {
    memory = (uint32_t)__cvta_generic_to_shared(shared);
    copy_rows<BLOCK, TERMS>(memory, queries, first_query, 0, min(DEPTH, queries.tiles));
    if (first_tile < end_tile) fetch(first_tile);
    #pragma unroll
    for (int i = 0; i < FRAGMENTS * 2; ++i) {
      largest[i / 2][i % 2] = -INFINITY;
      total[i / 2][i % 2] = 0.0f;
    }
    #pragma unroll
    for (int i = 0; i < FRAGMENTS * WIDTH / 2; ++i) sums[i / (WIDTH / 2)][i / 4 % (WIDTH / 8)][i % 4] = 0.0f;
  }

  // Where a lane finds its row of a tile in shared memory; groups of 8 elements are permuted.
  template <int COUNT, int EACH>
  __device__ __forceinline__ static uint32_t line(uint32_t operand, int tile, int term, int row, int group) {
    return operand + ((tile * EACH + term) * COUNT + row) * LINE + (group ^ (row / 2 % 4)) * 16;
  }

  // Adds the products of terms to two sums, that of the two largest terms to `high`.
  template <typename P, int EACH>
  __device__ __forceinline__ static void multiply_terms(
      float (&low)[4], float (&high)[4], const uint32_t (&a)[EACH][4], const uint32_t (&b)[EACH][4], int side) {
    #pragma unroll
    for (int i = EACH * EACH - 1; i > 0; --i) {
      const int left = i / EACH, right = i % EACH;
      if (left + right < EACH) multiply_add<P>(low, a[left], b[right][side * 2], b[right][side * 2 + 1]);
    }
    multiply_add<P>(high, a[0], b[0][side * 2], b[0][side * 2 + 1]);
  }

  // The scores of this warp's queries with a tile of keys; starts to copy the next one.
  __device__ __forceinline__ void multiply(float (&scores)[FRAGMENTS][KEYS / 8][4], int tile, int end_tile) {
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    if (tile + 1 < end_tile) fetch(tile + 1);
    const int lane = threadIdx.x % 32, first_row = threadIdx.x / 32 * ROWS;
    const uint32_t there = stage(tile);
    #pragma unroll
    for (int i = 0; i < FRAGMENTS * KEYS / 2; ++i) scores[i / (KEYS / 2)][i / 4 % (KEYS / 8)][i % 4] = 0.0f;
    #pragma unroll
    for (int first_key = 0; first_key < KEYS; first_key += 32) {
      #pragma unroll
      for (int part = 0; part < PARTS; ++part) {
        float low[FRAGMENTS][4][4] = {}, high[FRAGMENTS][4][4] = {};
        const int end = min(min(part * 4 + 4, DEPTH), keys.tiles);
        for (int depth = part * 4; depth < end; ++depth) {
          #pragma unroll
          for (int k = 0; k < 2; ++k) {
            uint32_t a[FRAGMENTS][TERMS][4], b[2][TERMS][4];
            #pragma unroll
            for (int i = 0; i < FRAGMENTS * TERMS; ++i) {
              const int row = first_row + i / TERMS * 16 + lane % 16, group = k * 2 + lane / 16;
              load_matrices(a[i / TERMS][i % TERMS], line<BLOCK, TERMS>(memory, depth, i % TERMS, row, group));
            }
            #pragma unroll
            for (int i = 0; i < 2 * TERMS; ++i) {
              const int row = first_key + i / TERMS * 16 + lane % 8 + lane / 16 * 8, group = k * 2 + lane / 8 % 2;
              load_matrices(b[i / TERMS][i % TERMS], line<KEYS, TERMS>(there, depth, i % TERMS, row, group));
            }
            #pragma unroll
            for (int i = 0; i < FRAGMENTS * 4; ++i) {
              const int f = i / 4, n = i % 4;
              multiply_terms<T, TERMS>(low[f][n], high[f][n], a[f], b[n / 2], n % 2);
            }
          }
        }
        #pragma unroll
        for (int i = 0; i < FRAGMENTS * 16; ++i) {
          const int f = i / 16, n = i / 4 % 4, e = i % 4;
          float scale = 1.0f;
          if constexpr (TERMS == 2) {
            const int row = first_query + first_row + f * 16 + lane / 4 + e / 2 * 8;
            const int key = first_key + n * 8 + lane % 4 * 2 + e % 2;
            scale = queries.scales[(int64_t)part * queries.rows + row];
            scale *= shared_float(there + KEY_BYTES + VALUE_BYTES + (part * KEYS + key) * 4);
          }
          scores[f][first_key / 8 + n][e] += (low[f][n][e] + high[f][n][e]) * scale;
        }
      }
    }
    if (keys.tiles > DEPTH) {
      #pragma unroll
      for (int i = 0; i < FRAGMENTS * KEYS / 2; ++i) {
        const int f = i / (KEYS / 2), n = i / 4 % (KEYS / 8), e = i % 4;
        const int row = first_query + first_row + f * 16 + lane / 4 + e / 2 * 8;
        scores[f][n][e] += score_beyond(queries, keys, row, tile * KEYS + n * 8 + lane % 4 * 2 + e % 2);
      }
    }
  }

  // An element of an operand in memory.
  __device__ __forceinline__ static float element(const PackedMatrix<T>& from, int row, int tile, int place) {
    const T* there = from.terms + ((int64_t)(row / 64) * from.tiles + tile) * (TERMS * 2048);
    const int within = row % 64 * 32 + (place / 8 ^ (row / 2 % 4)) * 8 + place % 8;
    const float high = there[within];
    if constexpr (TERMS == 1) return high;
    return (high + (float)there[2048 + within]) * from.scales[(int64_t)(tile / 4) * from.rows + row];
  }

  // What the elements beyond those that shared memory has room for add to a score, without tensor cores.
  __device__ __noinline__ static float score_beyond(
      PackedMatrix<T> queries, PackedMatrix<T> keys, int row, int key) {
    float more = 0.0f;
    for (int place = DEPTH * 32; place < keys.tiles * 32; ++place) {
      more += element(queries, row, place / 32, place % 32) * element(keys, key, place / 32, place % 32);
    }
    return more;
  }

  // Takes the final scores of a tile of keys into the softmax, and adds their values, weighted, to the sums.
  __device__ __forceinline__ void take(const float (&scores)[FRAGMENTS][KEYS / 8][4], int tile) {
    float shrink[FRAGMENTS][2];
    uint32_t weights[KEYS / 16][FRAGMENTS][VALUE_TERMS][4];
    #pragma unroll
    for (int i = 0; i < FRAGMENTS * 2; ++i) {
      const int f = i / 2, side = i % 2;
      float most = largest[f][side];
      #pragma unroll
      for (int n = 0; n < KEYS / 4; ++n) most = fmaxf(most, scores[f][n / 2][side * 2 + n % 2]);
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
      const float from = most == -INFINITY ? 0.0f : most;
      shrink[f][side] = expf(largest[f][side] - from);
      largest[f][side] = most;
      float sum = 0.0f;
      #pragma unroll
      for (int n = 0; n < KEYS / 8; ++n) {
        const float2 weight = {expf(scores[f][n][side * 2] - from), expf(scores[f][n][side * 2 + 1] - from)};
        sum += weight.x + weight.y;
        split_pair<V, VALUE_TERMS>(
            weight, [&](int term) -> uint32_t& { return weights[n / 2][f][term][n % 2 * 2 + side]; });
      }
      total[f][side] = total[f][side] * shrink[f][side] + sum;
    }
    const uint32_t there = stage(tile) + KEY_BYTES;
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < WIDTH / 16; ++n) {
      float low[FRAGMENTS][2][4] = {}, high[FRAGMENTS][2][4] = {};
      #pragma unroll
      for (int k = 0; k < KEYS / 16; ++k) {
        uint32_t b[VALUE_TERMS][4];
        #pragma unroll
        for (int term = 0; term < VALUE_TERMS; ++term) {
          const int row = n * 16 + lane % 8 + lane / 16 * 8, group = k % 2 * 2 + lane / 8 % 2;
          load_matrices(b[term], line<WIDTH, VALUE_TERMS>(there, k / 2, term, row, group));
        }
        #pragma unroll
        for (int i = 0; i < FRAGMENTS * 2; ++i) {
          multiply_terms<V, VALUE_TERMS>(low[i / 2][i % 2], high[i / 2][i % 2], weights[k][i / 2], b, i % 2);
        }
      }
      #pragma unroll
      for (int i = 0; i < FRAGMENTS * 8; ++i) {
        const int f = i / 8, side = i / 4 % 2, e = i % 4;
        float& sum = sums[f][n * 2 + side][e];
        sum = sum * shrink[f][e / 2] + (low[f][side][e] + high[f][side][e]);
      }
    }
  }

  // Adds up the sums of weights of the four lanes that share a row. Where a score is NaN, the largest is, too.
  __device__ __forceinline__ void finish() {
    #pragma unroll
    for (int i = 0; i < FRAGMENTS * 2; ++i) {
      float& sum = total[i / 2][i % 2];
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      if (isnan(sum)) largest[i / 2][i % 2] = sum;
    }
  }
};
