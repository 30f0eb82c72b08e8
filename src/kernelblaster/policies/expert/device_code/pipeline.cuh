// Which stages of shared memory are full and which are free again.
template <int STAGES>
struct Pipeline {
  alignas(8) uint64_t full[STAGES], free[STAGES];
};

__device__ uint32_t shared_address(const void* pointer) {
  return (uint32_t)__cvta_generic_to_shared(pointer);
}

__device__ void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ void expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void copy_bulk(uint32_t to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      ::"r"(to), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

template <int STAGES>
__device__ void prepare(Pipeline<STAGES>& pipeline, int readers) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      const uint32_t full = shared_address(&pipeline.full[stage]), free = shared_address(&pipeline.free[stage]);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(free), "r"(readers));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
}
