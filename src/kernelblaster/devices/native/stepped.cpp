// What a process that is stepped (stepping.h) tells of itself: its regions of memory, and the library functions that the
// candidate imports, with how their arguments are checked.
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>

#include "stepping.h"

extern "C" char __executable_start, end;

namespace stepping {
namespace {

constexpr uint64_t kAround = 4ull << 30;     // RLIMIT_AS: nothing of a process is farther from its libraries, or its heap
constexpr uint64_t kStack = 64ull << 20;
constexpr uint64_t kThread = 4096;           // what a thread has of the C library and of thread-local variables
constexpr int kFirstObject = 9;              // of the regions

struct Named { const char* names; const char* takes; };

// Names are separated by blanks.
const Named kFunctions[] = {
    {"free _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t", "p"},
    {"__cxa_guard_acquire __cxa_guard_release __cxa_guard_abort", "8"}, {"__cxa_free_exception __tls_get_addr", "p"}, {"fflush", "F"},
    {"__cxa_atexit", "ppp"}, {"__errno_location __stack_chk_fail abort", ""}, {"exit", "i"},
    {"malloc _Znwm _Znam __cxa_allocate_exception", "n"}, {"calloc", "nn"}, {"realloc", "pn"},
    {"_ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t", "np"}, {"aligned_alloc", "nnA"}, {"_ZnwmSt11align_val_t _ZnamSt11align_val_t", "nnA"},
    {"posix_memalign", "pnnB"},
    {"memset", "pin"}, {"__memset_chk", "pinn"}, {"memcpy memmove", "ppn"}, {"__memcpy_chk __memmove_chk", "ppnn"},
    {"memchr", "Min"}, {"memcmp", "MMn"}, {"_ZSt11_Hash_bytesPKvmm", "mnn"},
    {"strlen", "t"}, {"strnlen", "un"}, {"strcmp strstr", "tt"}, {"strncmp", "UUn"}, {"strchr strrchr", "ti"},
    {"strcpy", "pt"}, {"strncpy", "pUn"}, {"strcat", "tt"}, {"strncat", "tUn"},
    {"__strcpy_chk", "ptn"}, {"__strncpy_chk", "pUnn"}, {"__strcat_chk", "ttn"}, {"__strncat_chk", "tUnn"},
    {"strerror", "i"}, {"atof atoi atol atoll perror puts", "t"}, {"strtod strtof", "tp"},
    {"strtol strtoll strtoul strtoull __isoc23_strtol __isoc23_strtoll __isoc23_strtoul __isoc23_strtoull", "tpi"},
    {"fputc putc _IO_putc", "iF"}, {"putchar", "i"}, {"fputs", "tF"}, {"fwrite", "wnnF"}, {"__assert_fail", "ttit"},
    {"printf", "%"}, {"__printf_chk", "i%"}, {"fprintf", "F%"}, {"__fprintf_chk", "Fi%"}, {"sprintf", "p%"}, {"__sprintf_chk", "pin%"},
    {"snprintf", "pn%"}, {"__snprintf_chk", "pnin%"}, {"vprintf", "%v"}, {"__vprintf_chk", "i%v"}, {"vfprintf", "F%v"},
    {"__vfprintf_chk", "Fi%v"}, {"vsprintf", "p%v"}, {"__vsprintf_chk", "pin%v"}, {"vsnprintf", "pn%v"}, {"__vsnprintf_chk", "pnin%v"},
    {"abs", "i"}, {"labs llabs", "n"}, {"div", "ii"}, {"ldiv lldiv", "nn"},
    {"cudaSetDevice cudaSetDeviceFlags", "i"}, {"cudaDeviceGetAttribute cudaFuncSetAttribute", "pii"},
    {"cudaGetDeviceProperties cudaGetDeviceProperties_v2", "pi"}, {"cuTensorMapEncodeTiled cuTensorMapEncodeIm2col", "pii"},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessor", "ppin"}, {"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "ppini"},
};

// Functions of floating-point numbers, by the arguments of the one for double; there is one for float, too.
const Named kMathematics[] = {
    {"acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp10 exp2 expm1 fabs floor ilogb lgamma llrint llround log log10 "
     "log1p log2 logb lrint lround nearbyint rint round sin sinh sqrt tan tanh tgamma trunc __fpclassify __isinf __isnan __signbit __finite", "d"},
    {"atan2 copysign fdim fmax fmin fmod hypot nextafter pow remainder", "dd"}, {"fma", "ddd"},
    {"frexp modf", "dp"}, {"remquo", "ddp"}, {"sincos", "dpp"}, {"ldexp scalbn", "di"}, {"scalbln", "dn"}, {"nan", "t"},
};

// By the beginning of the name. None of the functions of trees, lists and hash tables reads more than links.
const Named kBeginnings[] = {
    {"_ZSt18_Rb_tree_", "p"}, {"_ZSt28_Rb_tree_", "pp"}, {"_ZSt29_Rb_tree_insert", "ippp"}, {"_ZSt29_Rb_tree_black", "pp"},
    {"_ZNSt8__detail15_List_node_base7_M_hook", "pp"}, {"_ZNSt8__detail15_List_node_base9_M_unhook", "p"},
    {"_ZNSt8__detail15_List_node_base11_M_transfer", "ppp"}, {"_ZNSt8__detail15_List_node_base4swap", "pp"},
    {"_ZNSt8__detail15_List_node_base10_M_reverse", "p"},
    {"_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehash", "onnn"}, {"_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bkt", "on"},
    {"_ZNKSt8__detail20_Prime_rehash_policy14_M_bkt_for_elements", "on"}, {"_ZNSt8ios_base4Init", "p"},
};

const char kString[] = "St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE";

// What a member of std::string takes, from its mangled name: the object, unless it is being made or ended, and what follows.
std::string string_takes(const char* name) {
  bool constant = !strncmp(name, "_ZNK", 4);
  if (strncmp(name, constant ? "_ZNK" : "_ZN", constant ? 4 : 3) != 0) return "!";
  name += constant ? 4 : 3;
  if (strncmp(name, kString, sizeof kString - 1) != 0) return "!";
  name += sizeof kString - 1;
  std::string method, takes;
  if (*name >= '0' && *name <= '9') {
    char* at = nullptr;
    size_t letters = (size_t)strtoul(name, &at, 10);
    if (letters > strlen(at)) return "!";
    method.assign(at, letters), name = at + letters;
  } else {
    method.assign(name, 2), name += 2;
  }
  if (method == "_M_construct" && *name == 'I') return !strncmp(name, "ILb", 3) ? "pmn" : "pep";
  if (*name++ != 'E') return "!";   // other templates
  if (method == "substr") takes = "p";   // where the result goes
  takes += method[0] == 'C' || method[0] == 'D' || method == "_M_create" || method == "_M_construct" || method == "_M_dispose" || method == "_M_destroy" ? "p" : "s";
  while (*name) {
    auto is = [&](const char* text) {
      bool same = !strncmp(name, text, strlen(text));
      if (same) name += strlen(text);
      return same;
    };
    if (is("v")) continue;
    if (is("PKcmm")) takes += "qnn";   // of find(): from where on, and how much of it
    else if (is("PKcm")) takes += method.find("find") < 2 ? "tn" : "mn";   // from where on; how much of it
    else if (is("PKc")) takes += "t";
    else if (is("Pc")) takes += "p";
    else if (is("Rm")) takes += "8";
    else if (is("RKS3_")) takes += "p";   // an allocator
    else if (is("RKS4_") || is("RS4_") || is("OS4_")) takes += "s";
    else if (is("m") || is("l") || is("y") || is("x")) takes += "n";
    else if (is("c") || is("i") || is("b") || is("j")) takes += "i";
    else return "!";
  }
  return takes;
}

// `text` + `text`: where the result goes, and both.
std::string sum_takes(const char* name) {
  const char* letters = strstr(name, "EE");   // the last one
  while (letters && strstr(letters + 1, "EE")) letters = strstr(letters + 1, "EE");
  const Named kinds[] = {{"PKS5_RKS8_", "pts"}, {"PKS5_OS8_", "pts"}, {"RKS8_PKS5_", "pst"}, {"OS8_PKS5_", "pst"}, {"RKS8_SA_", "pss"},
                         {"OS8_S9_", "pss"}, {"RKS8_OS8_", "pss"}, {"OS8_RKS8_", "pss"}, {"RKS8_S5_", "psi"}, {"OS8_S5_", "psi"},
                         {"S5_RKS8_", "pis"}, {"S5_OS8_", "pis"}};
  for (const Named& one : kinds)
    if (letters && !strcmp(letters + 2, one.names)) return one.takes;
  return "!";
}

std::string takes_by_name(const char* name) {
  for (const Named& one : kBeginnings)
    if (!strncmp(name, one.names, strlen(one.names))) return one.takes;
  if (!strncmp(name, "_ZStplIc", 8)) return sum_takes(name);
  if (strstr(name, "12basic_string")) return string_takes(name);
  std::string text = name;
  for (const char* error : {"_ZNSt13runtime_error", "_ZNSt11logic_error", "_ZNSt12length_error", "_ZNSt12out_of_range", "_ZNSt12domain_error",
                            "_ZNSt14overflow_error", "_ZNSt11range_error", "_ZNSt16invalid_argument"})
    if (text.find(error) == 0) return text.find("PKc") != text.npos ? "pt" : text.find("basic_string") != text.npos ? "ps" : "pp";
  return "!";
}

std::unordered_map<uint64_t, std::string> known_functions() {
  std::unordered_map<uint64_t, std::string> known;
  auto add = [&](const Named& given, const std::string& suffix, const std::string& takes) {
    std::istringstream names(given.names);
    for (std::string name; names >> name;)
      if (void* address = dlsym(RTLD_DEFAULT, (name + suffix).c_str())) known.emplace((uint64_t)address, takes);
  };
  for (const Named& one : kFunctions) add(one, "", one.takes);
  for (const Named& one : kMathematics) {
    std::string single = one.takes;
    std::replace(single.begin(), single.end(), 'd', 'f');
    add(one, "", one.takes), add(one, "f", single);
  }
  return known;
}

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

Announcement says;
std::vector<Import> imports;

// Each object that is loaded is a region.
int add_object(dl_phdr_info* info, size_t, void*) {
  static int next = kFirstObject;
  uint64_t first = ~0ull, last = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    first = std::min<uint64_t>(first, info->dlpi_addr + segment.p_vaddr);
    last = std::max<uint64_t>(last, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (first < last && next < kRegions) says.regions[next++] = {first, first, last};
  return 0;
}

Import import_at(uint64_t address, const std::unordered_map<uint64_t, std::string>& known) {
  Import found{address, "!"};
  auto it = known.find(address);
  Dl_info about;
  std::string takes = "!";
  if (it != known.end()) takes = it->second;
  else if (address >= (uint64_t)&__executable_start && address < (uint64_t)&end) takes = "*";   // stand_in.cpp
  else if (dladdr((void*)address, &about) && about.dli_saddr == (void*)address && about.dli_sname) takes = takes_by_name(about.dli_sname);
  if (takes.size() < sizeof found.takes) strcpy(found.takes, takes.c_str());
  return found;
}

void look_around(const void* entry) {
  std::vector<uint64_t> words;
  Found found{(uint64_t)entry, &says, &words, 0};
  dl_iterate_phdr(look, &found);
  const auto known = known_functions();
  for (uint64_t word : words)
    if ((word < says.loaded || word >= found.end) && word > 0x10000) imports.push_back(import_at(word, known));
}

// Takes all that malloc would give again: what it gives next comes from the end of the heap, at `place` in a page, so that
// the two processes get the same, though what they did before may not be quite the same. Returns where that is.
const void* take_heap(uint64_t place) {
  mallopt(M_TOP_PAD, 16 << 20);   // where the heap is at its end, malloc looks elsewhere first
  const size_t most = 100 << 10;  // is not mapped by itself
  char* taken = (char*)malloc(most);
  const size_t bytes = most + ((place - (uint64_t)taken - most) & 0xff0);
  free(taken);
  taken = (char*)malloc(bytes - 8);
  for (size_t size = most; size >= 16; size -= 16) {
    void* free_one = malloc(size);
    while ((const char*)free_one < taken) free_one = malloc(size);
    free(free_one);
  }
  return taken + bytes;
}

}  // namespace

__attribute__((noinline)) void announce(const void* entry, uint64_t tensors, uint64_t tensors_bytes, uint64_t stream, uint64_t of_heap) {
#if defined(__x86_64__)
  look_around(entry);   // what it needs of the heap is given back before that is taken
  says.entry = (uint64_t)entry;
  says.imports = (uint64_t)imports.data();
  says.count = imports.size();
  char here;
  uint64_t program = (uint64_t)&__executable_start, libraries = (uint64_t)dlsym(RTLD_DEFAULT, "strerror"), stack = (uint64_t)&here;
  auto around = [](uint64_t base, uint64_t bytes) { return Region{base, base > bytes ? base - bytes : 0, base + bytes}; };
  says.regions[0] = around(libraries, kAround);
  says.regions[1] = {program, program, (uint64_t)&end};
  says.regions[2] = around((uint64_t)sbrk(0) & ~0xfffull, kAround);
  says.regions[4] = around(stack, kStack);
  says.regions[5] = {tensors, tensors, tensors + tensors_bytes};
  says.regions[6] = around(says.loaded, kAround);   // the candidate, and large blocks of memory
  says.regions[7] = {stream, stream, stream + 1};
  // Systems put large libraries at whole pages of 2 MiB, and small things into the gaps: distances between libraries, and to
  // what belongs to a thread, differ from process to process.
  says.regions[8] = around((uint64_t)pthread_self(), kThread);
  dl_iterate_phdr(add_object, nullptr);
  says.files[0] = (uint64_t)stdout, says.files[1] = (uint64_t)stderr;
  says.regions[3] = around((uint64_t)take_heap(of_heap), kAround);
  asm volatile("int3" : : "D"(&says) : "memory");
#else
  (void)entry, (void)tensors, (void)tensors_bytes, (void)stream, (void)of_heap;
#endif
}

}  // namespace stepping
