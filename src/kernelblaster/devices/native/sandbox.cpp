// What a process with a candidate's host code in it may ask of the system: an allow-list, in two steps. While the
// candidate is loaded it may open files for reading, in a root folder that holds the candidate alone (as another user
// where this one is root); afterwards it may compute, ask for memory and write to what is open. Whatever cannot be
// put in place is said; then nothing is loaded, unless the judge was told to go on without it.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "recording.h"

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

namespace {

constexpr uid_t kNobody = 65534;

// A filter over the number and the arguments of a system call; what no rule allows is refused with EPERM.
class Filter {
 public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    load(offsetof(seccomp_data, nr));
  }
  void allow(int call) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  // Allows a call unless one of `bits` is set in the low half of an argument.
  void allow_without(int call, int argument, unsigned bits) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4));
    load(offsetof(seccomp_data, args) + 8 * (size_t)argument);
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  // Allows a call whose first argument is `value`.
  void allow_only(int call, unsigned value) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 4));
    load(offsetof(seccomp_data, args));
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  // mmap of memory that is neither a file's nor executable.
  void allow_plain_memory() {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6));
    load(offsetof(seccomp_data, args) + 8 * 2);
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 2, 0));
    load(offsetof(seccomp_data, args) + 8 * 3);
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  std::string install() {
    add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
    sock_fprog description{(unsigned short)program_.size(), program_.data()};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description, 0, 0) == 0) return "";
    return std::string("system calls cannot be filtered (seccomp: ") + strerror(errno) + ")";
  }

 private:
  void add(sock_filter instruction) { program_.push_back(instruction); }
  void load(size_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }
  std::vector<sock_filter> program_;
};

const int kComputing[] = {
    SYS_brk,     SYS_munmap, SYS_mremap,     SYS_madvise,      SYS_futex,     SYS_write,       SYS_exit,
    SYS_exit_group, SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_getrandom, SYS_sched_yield, SYS_gettid, SYS_getpid,
};
const int kLoading[] = {SYS_read, SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_close, SYS_lseek, SYS_mmap,
                        SYS_mprotect};

void limit(int resource, rlim_t value) {
  rlimit bound{value, value};
  setrlimit((__rlimit_resource)resource, &bound);
}

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

// Landlock: of the whole file system, only files below `folder` may be opened, for reading.
bool only_reads_below(const char* folder) {
  struct { uint64_t handled_access_fs; } rules{(1ull << 13) - 1};
  struct __attribute__((packed)) { uint64_t allowed_access; int32_t parent; } below{(1ull << 2) | (1ull << 3), -1};
  int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
  if (set < 0) return false;
  below.parent = open(folder, O_PATH | O_CLOEXEC);
  bool done = below.parent >= 0 && syscall(SYS_landlock_add_rule, set, 1, &below, 0) == 0 &&
              syscall(SYS_landlock_restrict_self, set, 0) == 0;
  close(below.parent);
  close(set);
  return done;
}

bool lock_in(const char* folder) {
  if (chroot(folder) == 0 || (unshare(CLONE_NEWUSER) == 0 && chroot(folder) == 0)) return chdir("/") == 0;
  return only_reads_below(folder);
}

// Another user, where this one is root with root's rights. Root without them is an ordinary user.
bool become_nobody() {
  return setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0;
}

bool may_change_user() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[2] = {};
  return syscall(SYS_capget, &header, held) != 0 || (held[0].permitted & (1u << CAP_SETUID));
}

}  // namespace

std::string confine(const char* folder, uint64_t memory_bytes, int seconds, bool stepped) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 16);
  limit(RLIMIT_AS, memory_bytes);
  limit(RLIMIT_CPU, (rlim_t)seconds);
  limit(RLIMIT_MEMLOCK, 0);
  limit(RLIMIT_MSGQUEUE, 0);
  bool root = geteuid() == 0 && may_change_user();
  std::string gaps;
  auto lacks = [&gaps](const std::string& what) { gaps += (gaps.empty() ? "" : "; ") + what; };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) lacks(std::string("no_new_privs: ") + strerror(errno));
  if (!lock_in(folder)) lacks("files cannot be kept from host code (no chroot, no user namespaces, no Landlock)");
  if (root && !become_nobody()) lacks(std::string("host code would run as root: ") + strerror(errno));
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
  prctl(PR_SET_DUMPABLE, stepped ? 1 : 0, 0, 0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);   // again: a change of user takes it back
  Filter filter;
  for (int call : kComputing) filter.allow(call);
  for (int call : kLoading) filter.allow(call);
  filter.allow_only(SYS_tgkill, (unsigned)getpid());
  filter.allow_only(SYS_prctl, PR_SET_SECCOMP);   // the second step
  const unsigned writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  filter.allow_without(SYS_openat, 2, writing);
#ifdef SYS_open
  filter.allow_without(SYS_open, 1, writing);
#endif
  std::string unfiltered = filter.install();
  if (!unfiltered.empty()) lacks(unfiltered);
  return gaps;
}

std::string close_sandbox() {
  Filter filter;
  for (int call : kComputing) filter.allow(call);
  filter.allow_only(SYS_tgkill, (unsigned)getpid());   // abort() ends the process by its own signal
  filter.allow_plain_memory();
  filter.allow_without(SYS_mprotect, 2, PROT_EXEC);
  return filter.install();
}
