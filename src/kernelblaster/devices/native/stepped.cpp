// What a process that is stepped (stepping.h) tells of itself: its regions of memory, and the library functions that the
// candidate imports, with how their arguments are checked.
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "stepping.h"

extern "C" char __executable_start, end;

namespace stepping {
namespace {

constexpr uint64_t kAround = 4ull << 30;     // RLIMIT_AS: nothing of a process is farther from its libraries, or its heap
constexpr uint64_t kStack = 64ull << 20;

struct Named { const char* name; Checks checks; uint32_t which; };

// Arguments by position: 1 the first, 2 the second, 4 the third.
const Named kFunctions[] = {
    {"free", Checks::kNothing, 0}, {"_ZdlPv", Checks::kNothing, 0}, {"_ZdaPv", Checks::kNothing, 0}, {"_ZdlPvm", Checks::kNothing, 0},
    {"_ZdaPvm", Checks::kNothing, 0}, {"_ZdlPvSt11align_val_t", Checks::kNothing, 0}, {"_ZdaPvSt11align_val_t", Checks::kNothing, 0},
    {"__cxa_guard_acquire", Checks::kNothing, 0}, {"__cxa_guard_release", Checks::kNothing, 0}, {"__cxa_atexit", Checks::kNothing, 0},
    {"__errno_location", Checks::kNothing, 0}, {"__tls_get_addr", Checks::kNothing, 0}, {"fflush", Checks::kNothing, 0},
    {"exit", Checks::kNothing, 0}, {"abort", Checks::kNothing, 0},
    {"malloc", Checks::kSizes, 1}, {"calloc", Checks::kSizes, 3}, {"realloc", Checks::kSizes, 2}, {"aligned_alloc", Checks::kSizes, 3},
    {"posix_memalign", Checks::kSizes, 6}, {"_Znwm", Checks::kSizes, 1}, {"_Znam", Checks::kSizes, 1},
    {"_ZnwmSt11align_val_t", Checks::kSizes, 3}, {"_ZnamSt11align_val_t", Checks::kSizes, 3}, {"_ZnwmRKSt9nothrow_t", Checks::kSizes, 1},
    {"_ZnamRKSt9nothrow_t", Checks::kSizes, 1}, {"memset", Checks::kSizes, 6}, {"__memset_chk", Checks::kSizes, 6},
    {"memcpy", Checks::kCopy, 0}, {"memmove", Checks::kCopy, 0}, {"__memcpy_chk", Checks::kCopy, 0}, {"__memmove_chk", Checks::kCopy, 0},
    {"memchr", Checks::kMemory, 0}, {"memcmp", Checks::kMemory, 0}, {"_ZSt11_Hash_bytesPKvmm", Checks::kBytes, 0},
    {"snprintf", Checks::kBytes, 1}, {"sprintf", Checks::kBytes, 1}, {"vsnprintf", Checks::kBytes, 1}, {"vsprintf", Checks::kBytes, 1},
    {"__snprintf_chk", Checks::kBytes, 1}, {"__sprintf_chk", Checks::kBytes, 1}, {"__vsnprintf_chk", Checks::kBytes, 1},
    {"__vsprintf_chk", Checks::kBytes, 1}, {"strcpy", Checks::kBytes, 1}, {"strncpy", Checks::kBytes, 1}, {"__strcpy_chk", Checks::kBytes, 1},
    {"__strncpy_chk", Checks::kBytes, 1},
    {"qsort", Checks::kNotFollowed, 0}, {"bsearch", Checks::kNotFollowed, 0}, {"__cxa_throw", Checks::kNotFollowed, 0},
    {"__cxa_rethrow", Checks::kNotFollowed, 0}, {"_Unwind_Resume", Checks::kNotFollowed, 0},
};

struct Found { uint64_t inside; Announcement* says; std::vector<uint64_t>* words; uint64_t end; };

// The candidate's segments, and the words in its tables of imports.
int look(dl_phdr_info* info, size_t, void* data) {
  Found* found = (Found*)data;
  uint64_t first = ~0ull, last = 0, text_begin = 0, text_end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    uint64_t begin = info->dlpi_addr + segment.p_vaddr, stop = begin + segment.p_memsz;
    first = std::min(first, begin), last = std::max(last, stop);
    if (segment.p_flags & PF_X) text_begin = begin, text_end = stop;
  }
  if (found->inside < first || found->inside >= last) return 0;
  found->says->loaded = info->dlpi_addr;
  found->end = last;
  found->says->text_begin = text_begin;
  found->says->text_end = text_end;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_W)) continue;
    for (uint64_t at = (info->dlpi_addr + segment.p_vaddr + 7) & ~7ull; at + 8 <= info->dlpi_addr + segment.p_vaddr + segment.p_filesz; at += 8)
      found->words->push_back(*(const uint64_t*)at);
  }
  return 1;
}

struct Library { const char* part; uint64_t begin = 0, stop = 0; };

int extent(dl_phdr_info* info, size_t, void* data) {
  Library* library = (Library*)data;
  if (!strstr(info->dlpi_name, library->part)) return 0;
  library->begin = ~0ull;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    library->begin = std::min<uint64_t>(library->begin, info->dlpi_addr + segment.p_vaddr);
    library->stop = std::max<uint64_t>(library->stop, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  return 1;
}

Announcement says;
std::vector<Import> imports;

Import import_at(uint64_t address, const Library& mathematics, const Library& objects) {
  for (const Named& one : kFunctions)
    if ((uint64_t)dlsym(RTLD_DEFAULT, one.name) == address) return {address, one.checks, one.which};
  if (address >= mathematics.begin && address < mathematics.stop) return {address, Checks::kNumber, 0};
  if (address >= (uint64_t)&__executable_start && address < (uint64_t)&end) return {address, Checks::kNothing, 0};   // stand_in.cpp
  Dl_info about;
  const char* name = dladdr((void*)address, &about) && about.dli_saddr == (void*)address ? about.dli_sname : nullptr;
  if (name && (!strncmp(name, "_ZSt18_Rb_tree_", 15) || !strncmp(name, "_ZSt28_Rb_tree_", 15) || !strncmp(name, "_ZSt29_Rb_tree_", 15) ||
               !strncmp(name, "_ZNSt8__detail15_List_node_base", 31)))
    return {address, Checks::kNothing, 0};   // they follow addresses, and read nothing else
  return {address, address >= objects.begin && address < objects.stop ? Checks::kObject : Checks::kBytes, 0};
}

}  // namespace

__attribute__((noinline)) void announce(const void* entry, uint64_t tensors, uint64_t tensors_bytes) {
#if defined(__x86_64__)
  std::vector<uint64_t> words;
  Found found{(uint64_t)entry, &says, &words, 0};
  dl_iterate_phdr(look, &found);
  Library mathematics{"libm.so"}, objects{"libstdc++.so"};
  for (Library* library : {&mathematics, &objects}) dl_iterate_phdr(extent, library);
  for (uint64_t word : words)
    if ((word < says.loaded || word >= found.end) && word > 0x10000) imports.push_back(import_at(word, mathematics, objects));
  says.entry = (uint64_t)entry;
  says.imports = (uint64_t)imports.data();
  says.count = imports.size();
  char here;
  uint64_t program = (uint64_t)&__executable_start, libraries = (uint64_t)dlsym(RTLD_DEFAULT, "strerror"), stack = (uint64_t)&here & ~0xffffull;
  uint64_t heap = ((uint64_t)sbrk(0) & ~0xfffull);
  auto around = [](uint64_t base, uint64_t bytes) { return Region{base, base > bytes ? base - bytes : 0, base + bytes}; };
  says.regions[0] = around(libraries, kAround);   // the candidate and large blocks of memory, too
  says.regions[1] = {program, program, (uint64_t)&end};
  says.regions[2] = around(heap, kAround);
  says.regions[3] = around(stack, kStack);
  says.regions[4] = {tensors, tensors, tensors + tensors_bytes};
  says.regions[5] = {says.loaded, says.loaded, says.loaded + kAround};
  asm volatile("movq %0, %%fs:0x28" : : "r"(0x6b65726e656c0000ull));   // what guards stacks is drawn for each process
  asm volatile("int3" : : "D"(&says) : "memory");
#else
  (void)entry, (void)tensors, (void)tensors_bytes;
#endif
}

}  // namespace stepping
