// Copies a pack to shared memory; nobody waits for it here.
template <typename P>
__device__ void copy_async(P* to, const P* from) {
  const uint32_t there = (uint32_t)__cvta_generic_to_shared(to);
  if constexpr (sizeof(P) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from) : "memory");
  } else if constexpr (sizeof(P) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(there), "l"(from) : "memory");
  } else if constexpr (sizeof(P) == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(there), "l"(from) : "memory");
  } else {
    *to = *from;
  }
}

__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
