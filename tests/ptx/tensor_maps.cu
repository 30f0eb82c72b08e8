// Copies by tensor maps. tests/ptx/test_tensor_maps.py launches them with one thread.
#include <cuda.h>
#include <cstdint>
#define KERNEL extern "C" __global__ void

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

__device__ void expect(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" : : "r"(shared_address(barrier)) : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void wait(uint64_t* barrier) {
  int ready = 0;
  while (!ready)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                 : "=r"(ready) : "r"(shared_address(barrier)) : "memory");
}

__shared__ alignas(1024) unsigned char tile[16384];
__shared__ alignas(8) uint64_t barrier;

// A box at (x, y) as it lies in shared memory.
KERNEL load(unsigned char* out, const __grid_constant__ CUtensorMap map, int x, int y, int bytes) {
  expect(&barrier, bytes);
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(shared_address(tile)), "l"(&map), "r"(x), "r"(y), "r"(shared_address(&barrier)) : "memory");
  wait(&barrier);
  for (int i = 0; i < bytes; ++i) out[i] = tile[i];
}

// The numbers 1, 2, 3 ... stored as a box at (x, y).
KERNEL store(const __grid_constant__ CUtensorMap map, int x, int y, int count) {
  for (int i = 0; i < count; ++i) ((float*)tile)[i] = i + 1;
  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
               : : "l"(&map), "r"(x), "r"(y), "r"(shared_address(tile)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" : : : "memory");
  asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
}

// Pixels from (w, h, n) on, moved by (down, right) within the filter.
KERNEL columns(float* out, const __grid_constant__ CUtensorMap map, int c, int w, int h, int n, int right, int down,
               int count) {
  expect(&barrier, count * 4);
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
               : : "r"(shared_address(tile)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n), "r"(shared_address(&barrier)),
                   "h"((short)right), "h"((short)down) : "memory");
  wait(&barrier);
  for (int i = 0; i < count; ++i) out[i] = ((float*)tile)[i];
}

// Reads what it copies before it has waited.
KERNEL hasty(float* out, const __grid_constant__ CUtensorMap map, int bytes) {
  expect(&barrier, bytes);
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               : : "r"(shared_address(tile)), "l"(&map), "r"(0), "r"(0), "r"(shared_address(&barrier)) : "memory");
  out[0] = ((volatile float*)tile)[0];
  wait(&barrier);
}
