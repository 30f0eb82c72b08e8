// What host code keeps from call to call: its writable segments, its thread's variables, blocks from malloc that it has
// not given back, errno and how its floating point rounds. A candidate that keeps nothing, or sets something up once,
// leaves all of that as it was when the same call is made again; one that counts its calls does not.
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "recording.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
extern char __executable_start, etext;
}

namespace {

constexpr size_t kMostBlocks = 1 << 14;   // beyond that, blocks are counted only
struct Block { void* address; size_t bytes; };
Block blocks[kMostBlocks];
size_t held = 0, beyond = 0;

// Whether a caller is the candidate, or a library that works for it; this program has its own libstdc++.
bool foreign(const void* caller) { return caller < (void*)&__executable_start || caller >= (void*)&etext; }

void* taken(void* address, size_t bytes, const void* caller) {
  if (!address || !foreign(caller)) return address;
  if (held < kMostBlocks) blocks[held++] = {address, bytes};
  else ++beyond;
  return address;
}

void given_back(void* address) {
  for (size_t i = held; i-- > 0;)   // the latest first: that is the usual order
    if (blocks[i].address == address) {
      memmove(blocks + i, blocks + i + 1, (held - i - 1) * sizeof(Block));
      --held;
      return;
    }
}

uint64_t mix(uint64_t hash, const void* data, size_t bytes) {
  const unsigned char* at = (const unsigned char*)data;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  for (; bytes; ++at, --bytes) hash = (hash ^ *at) * 0x100000001B3;
  return hash ^ hash >> 32;
}

struct Search { const void* inside; uint64_t hash; };

int mix_library(dl_phdr_info* info, size_t, void* data) {
  Search* search = (Search*)data;
  auto begins = [&](int i) { return (const char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr; };
  bool found = false;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    found |= info->dlpi_phdr[i].p_type == PT_LOAD && search->inside >= begins(i) &&
             search->inside < begins(i) + info->dlpi_phdr[i].p_memsz;
  if (!found) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && segment.p_flags & PF_W) search->hash = mix(search->hash, begins(i), segment.p_memsz);
    if (segment.p_type == PT_TLS && info->dlpi_tls_data)
      search->hash = mix(search->hash, info->dlpi_tls_data, segment.p_memsz);
  }
  return 1;
}

}  // namespace

uint64_t recording::kept_by(const void* function) {
  Search search{function, 1 + beyond};
  dl_iterate_phdr(mix_library, &search);
  for (size_t i = 0; i < held; ++i) search.hash = mix(search.hash, blocks[i].address, blocks[i].bytes);
  unsigned rounding = 0;
#if defined(__x86_64__)
  rounding = _mm_getcsr() & ~0x3fu;   // without the flags of what has happened
#endif
  const uint64_t rest[] = {(uint64_t)errno, rounding, held};
  return mix(search.hash, rest, sizeof rest);
}

extern "C" {

void* malloc(size_t bytes) { return taken(__libc_malloc(bytes), bytes, __builtin_return_address(0)); }
void* calloc(size_t count, size_t bytes) {
  return taken(__libc_calloc(count, bytes), count * bytes, __builtin_return_address(0));
}
void* realloc(void* address, size_t bytes) {
  given_back(address);
  return taken(__libc_realloc(address, bytes), bytes, __builtin_return_address(0));
}
void* memalign(size_t alignment, size_t bytes) {
  return taken(__libc_memalign(alignment, bytes), bytes, __builtin_return_address(0));
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return taken(__libc_memalign(alignment, bytes), bytes, __builtin_return_address(0));
}
int posix_memalign(void** address, size_t alignment, size_t bytes) {
  void* found = taken(__libc_memalign(alignment, bytes), bytes, __builtin_return_address(0));
  if (!found) return ENOMEM;
  *address = found;
  return 0;
}
void free(void* address) {
  if (!address) return;
  given_back(address);
  // Nothing of what the recorder worked on is left for a candidate to find.
  if (!foreign(__builtin_return_address(0))) memset(address, 0, malloc_usable_size(address));
  __libc_free(address);
}

}  // extern "C"
