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

// Closes a batch of copies.
__device__ void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits for all but the last few batches of copies.
__device__ void wait_for_copies(int but) {
  switch (but) {
    case 3: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
    case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
}
