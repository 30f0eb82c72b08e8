// A candidate is native code in this process, so what this process may ask of the kernel is cut
// down to what the CUDA driver still needs: no files for writing, no programs, no threads, no
// sockets, no look into other processes. Source and symbol screening come before; this is the net.
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "worker.h"

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

namespace {

const int kForbidden[] = {
    SYS_execve,       SYS_execveat,     SYS_clone,      SYS_socket,          SYS_socketpair,
    SYS_connect,      SYS_bind,         SYS_listen,     SYS_accept,          SYS_accept4,
    SYS_sendto,       SYS_sendmsg,      SYS_ptrace,     SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_kill,         SYS_tkill,        SYS_unlinkat,   SYS_renameat2,       SYS_mkdirat,
    SYS_linkat,       SYS_symlinkat,    SYS_fchmod,     SYS_fchmodat,        SYS_fchownat,
    SYS_truncate,     SYS_ftruncate,    SYS_mount,      SYS_umount2,         SYS_chroot,
    SYS_prlimit64,    SYS_setrlimit,    SYS_bpf,        SYS_perf_event_open, SYS_userfaultfd,
    SYS_setns,        SYS_unshare,      SYS_pivot_root, SYS_keyctl,          SYS_add_key,
    SYS_io_setup,     SYS_timer_create, SYS_setpriority,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
#endif
#ifdef SYS_openat2
    SYS_openat2,
#endif
#ifdef SYS_pidfd_open
    SYS_pidfd_open,   SYS_pidfd_getfd,
#endif
#ifdef SYS_fork
    SYS_fork,         SYS_vfork,        SYS_unlink,     SYS_rename,          SYS_mkdir,
    SYS_rmdir,        SYS_link,         SYS_symlink,    SYS_chmod,           SYS_chown,
    SYS_creat,        SYS_renameat,
#endif
};

void add(std::vector<sock_filter>& program, sock_filter instruction) { program.push_back(instruction); }

std::vector<sock_filter> filter(bool threads) {
  std::vector<sock_filter> program;
  auto load = [&](size_t offset) { add(program, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); };
  auto refuse = [&](int error) { add(program, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error)); };
  load(offsetof(seccomp_data, arch));
  add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
  add(program, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  load(offsetof(seccomp_data, nr));
  for (int call : kForbidden) {
    if (threads && call == SYS_clone) continue;
    add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1));
    refuse(EPERM);
  }
#ifdef SYS_clone3
  // The C library falls back to clone, whose flags are in a register, when clone3 does not exist.
  add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1));
  refuse(threads ? ENOSYS : EPERM);
#endif
  if (threads) {
    add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3));
    load(offsetof(seccomp_data, args[0]));
    add(program, BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0));
    refuse(EPERM);
    load(offsetof(seccomp_data, nr));
  }
  // Opening is allowed for reading only; the driver's own devices are open already.
  const unsigned writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3));
  load(offsetof(seccomp_data, args[2]));
  add(program, BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 0, 1));
  refuse(EACCES);
  load(offsetof(seccomp_data, nr));
#ifdef SYS_open
  add(program, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 3));
  load(offsetof(seccomp_data, args[1]));
  add(program, BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 0, 1));
  refuse(EACCES);
#endif
  add(program, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return program;
}

void limit(int resource, rlim_t value) {
  rlimit bound{value, value};
  setrlimit((__rlimit_resource)resource, &bound);
}

size_t data_bytes() {
  unsigned long pages[6] = {0};
  if (FILE* file = fopen("/proc/self/statm", "r")) {
    if (fscanf(file, "%lu %lu %lu %lu %lu %lu", &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]) != 6)
      pages[5] = 0;
    fclose(file);
  }
  return pages[5] * (size_t)sysconf(_SC_PAGESIZE);
}

}  // namespace

void leave_network() { (void)unshare(CLONE_NEWNET); }  // where permitted; the filter forbids sockets anyway

std::string close_sandbox(size_t limit_bytes, bool threads) {
  signal(SIGXFSZ, SIG_IGN);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NOFILE, 512);
  limit(RLIMIT_DATA, data_bytes() + limit_bytes);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return std::string("no_new_privs: ") + strerror(errno);
  auto program = filter(threads);
  sock_fprog description{(unsigned short)program.size(), program.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &description, 0, 0) != 0)
    return std::string("seccomp: ") + strerror(errno);
  return "";
}
