// The recorder. It never loads a candidate itself: for each recording it forks a child, which confines itself, loads
// the candidate, calls it once behind the stand-in runtime and hands over its launch list. What a child says travels
// through a pipe of its own; the recorder passes it on with its length and how the child ended.
//
//   request on standard input:   BYTES LIMIT_S JOBS\n, then BYTES of text: the common lines, a line "jobs", and a line
//                                for each job: a call, or several of which the last is recorded
//   first on standard output:    ready GAPS\n, where GAPS says what of the sandbox is not to be had here
//   answer on standard output:   for each job, in order: STATUS BYTES SECONDS\n (of a processor) and the list. STATUS is what waitpid told, or
//                                "late" where the limit had passed, or "skipped" where another one did not end well.
//   to step a call (stepping.h): BYTES LIMIT_S 2 step AWAY SEED CLEAR\n and the same text, with two jobs that differ in where their tensors
//                                are, by AWAY bytes; the answer is: step BYTES 0\n and a line of step(). If that is "steps N", there
//                                follow the bytes of the first list, \n, and both lists.
// Common lines: folder PATH / object NAME / memory BYTES / gpu MEMORY NAME / attribute NUMBER VALUE / window BEGIN BYTES / elsewhere BEGIN BYTES /
// kernel NAME REGISTERS SHARED LOCAL CONSTANT THREADS (OFFSET BYTES)... / global NAME ADDRESS BYTES / fact VALUE QUESTION.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

#include "recording.h"
#include "stepping.h"

using namespace recording;

namespace {

bool unsafe = false;   // goes on where a child cannot be confined
const char* program = "";
constexpr size_t kMostAnswer = kMostBytes + (1 << 20);

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct Common {
  std::string folder, object = "candidate.so";
  uint64_t memory_bytes = 4ull << 30;
};

Common read_common(const char* text, size_t bytes) {
  Common common;
  std::istringstream lines(std::string(text, bytes));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "folder") std::getline(words >> std::ws, common.folder);
    else if (kind == "object") words >> common.object;
    else if (kind == "memory") words >> common.memory_bytes;
    else if (kind == "gpu") { words >> request.device_memory; std::getline(words >> std::ws, request.gpu_name); }
    else if (kind == "attribute") { int which = 0; words >> which >> request.attributes[which]; }
    else if (kind == "window") words >> request.window >> request.window_bytes;
    else if (kind == "elsewhere") words >> request.elsewhere >> request.elsewhere_bytes;
    else if (kind == "global") { Global g; words >> name >> g.address >> g.bytes; request.globals[name] = g; }
    else if (kind == "fact") { int64_t value; words >> value; std::getline(words >> std::ws, name); request.facts[name] = value; }
    else if (kind == "kernel") {
      Kernel k;
      words >> name >> k.registers >> k.static_shared >> k.local_bytes >> k.constant_bytes >> k.max_threads;
      for (uint64_t offset, size; words >> offset >> size;) k.parameters.push_back({offset, size});
      request.kernels[name] = k;
    }
  }
  return common;
}

// A job: SCRATCH AT_END STREAM FILLING (TIMES N A1 ... AN)..., how often and with which arguments to call, one after the other,
// where an argument is i<whole number> (pointers too), d<number> or b<0 or 1>.
void read_job(const std::string& line) {
  std::istringstream words(line);
  int at_end = 0;
  words >> request.scratch >> at_end >> request.stream >> request.filling;
  request.scratch_at_end = at_end != 0;
  for (size_t times, count; words >> times >> count;) {
    std::vector<uint64_t> values;
    for (std::string word; values.size() < count && words >> word;) {
      uint64_t value = 0;
      if (word[0] == 'd') {
        double number = strtod(word.c_str() + 1, nullptr);
        memcpy(&value, &number, 8);
      } else if (word[1] == '-') {
        value = (uint64_t)strtoll(word.c_str() + 1, nullptr, 10);
      } else {
        value = strtoull(word.c_str() + 1, nullptr, 10);
      }
      values.push_back(value);
    }
    request.calls.push_back({times, values});
  }
}

// What earlier calls left on the stack ends up in the padding of structures: it is the same before every call.
__attribute__((noinline)) void clear_stack() {
  char below[1 << 18];
  explicit_bzero(below, sizeof below);   // byte by byte it would take longer than what host code does, and is timed
}

[[noreturn]] void leave(const std::string& why) {
  put("broken " + why);
  hand_over();
  _exit(1);
}

using Call = void (*)(void* const*, cudaStream_t);

// What is equal in addresses of all processes of a kind, or differs in one of a thousand, is drawn for processes that are
// stepped: the lowest bits, alike in both, so that nothing tells that a process is stepped; and in the second one, where
// things lie relative to each other, so that no address or distance is equal in both by chance.
struct Drawn {
  bool second;
  uint64_t seed;
  static constexpr uint64_t kAligned = 256;   // what is asked for on the stack, at most
  uint64_t pages = 1 + (seed >> 40) % 97 + 211 * second;                        // between the candidate and what was loaded before
  uint64_t lowest = second * kAligned * (1 + (seed >> 20) % 15);   // less than a page
  uint64_t of_stack = (seed & 0xf00) + lowest + 4096 * second * (1 + (seed >> 30) % 14);
  uint64_t of_heap = (seed & 0xf0) + lowest;
  // Of the largest stack, below which the system puts libraries: their addresses would begin with the same byte.
  static uint64_t room(uint64_t seed) { return (2 + (seed >> 50) % 16) << 40; }
};

// In a child: everything that it must not see is gone before the candidate is loaded. Its list goes to `out`.
Call load(char* text, size_t common_bytes, const std::string& line, size_t bytes, int out, int seconds, const Drawn* stepped) {
  signal(SIGPIPE, SIG_DFL);
  int nowhere = open("/dev/null", O_RDWR);
  int held = fcntl(out, F_DUPFD, 10);
  for (int fd = 0; fd < 3; ++fd) dup2(nowhere, fd);
  dup2(held, 3);
  syscall(SYS_close_range, 4u, ~0u, 0u);
  Common common = read_common(text, common_bytes);
  read_job(line);
  memset(text, 0, bytes);
  std::string gaps = confine(common.folder.c_str(), common.memory_bytes, seconds, stepped != nullptr);
  if (!gaps.empty() && !unsafe) leave(gaps);
  // Its folder is the root now, unless only Landlock was to be had.
  std::string path = "/" + common.object;
  int there = open(path.c_str(), O_RDONLY);
  if (there >= 0) close(there);
  else path = common.folder + path;
  if (stepped) mmap(nullptr, stepped->pages * getpagesize(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto call = library ? (Call)dlsym(library, "kernelblaster_call") : nullptr;
  if (!call) {
    const char* why = dlerror();
    put(std::string("unloadable ") + (why ? why : "it has no kernelblaster_call"));
    hand_over();
    _exit(0);
  }
  gaps = close_sandbox();
  if (!gaps.empty() && !unsafe) leave(gaps);
  return call;
}

// The same for every call of one: what is on the stack and in memory from malloc tells nothing.
void one_call(Call call, const std::vector<uint64_t>& values) {
  std::vector<uint64_t> own = values;
  std::vector<void*> pointers;
  for (uint64_t& value : own) pointers.push_back(&value);
  clear_stack();
  call(pointers.data(), (cudaStream_t)(uintptr_t)request.stream);
}

void settle() {
  mallopt(M_PERTURB, request.filling);
  for (FILE* stream : {stdout, stderr}) setvbuf(stream, nullptr, _IONBF, 0);   // a buffer's fill could count calls
}

extern "C" char __libc_single_threaded;

// What a process may be in when it makes a call, and what the call must not go by: drawn for each recording.
struct Surroundings {
  uint64_t bits = drawn_bits();
  size_t of_stack = 16 * (bits >> 8 & 255);
  Surroundings() {
    __libc_single_threaded = (char)(bits >> 2 & 1);
#if defined(__x86_64__)
    if (bits >> 3 & 1) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);   // denormal numbers count as zero
#endif
    volatile char* kept = (char*)malloc(16 + 16 * (bits >> 16 & 255));
    kept[0] = 0;
    const int errors[] = {0, EAGAIN, ENOENT, EINTR};
    errno = errors[bits & 3];
  }
  static uint64_t drawn_bits() {
    uint64_t some = 0;
    return syscall(SYS_getrandom, &some, sizeof some, 0) == sizeof some ? some : (uint64_t)getpid();
  }
};

[[noreturn]] void record(char* text, size_t common_bytes, const std::string& line, size_t bytes, int out, int seconds) {
  Call call = load(text, common_bytes, line, bytes, out, seconds, nullptr);
  settle();
  const Surroundings drawn;
  volatile char* room = (char*)__builtin_alloca(16 + drawn.of_stack);
  room[0] = 0;
  bool keeps = false;
  const std::vector<uint64_t>* before = nullptr;
  size_t alike = 0;   // calls with the same arguments, one after the other
  uint64_t kept = 0;
  for (auto& [times, values] : request.calls)
    for (size_t i = 0; i < times; ++i) {
      bool last = i + 1 == times && &values == &request.calls.back().second;
      begin_call(last);
      one_call(call, values);
      alike = before && *before == values ? alike + 1 : 1;
      before = &values;
      if (alike < 2 || (alike > 3 && !last)) continue;
      uint64_t now = kept_by((const void*)call);
      keeps |= alike > 2 && now != kept;
      kept = now;
    }
  if (keeps) put("violation host code changes what it keeps with every call: a call may depend on its arguments alone");
  put("end");
  hand_over();
  _exit(0);
}

struct Job {
  pid_t pid = -1;
  int from = -1;
  double deadline = 0, took_s = 0;
  std::string list, status;
};

void finish(Job& job, bool late) {
  close(job.from);
  job.from = -1;
  kill(job.pid, SIGKILL);   // also where it closed its end and lives on; a process that has ended keeps its status
  int status = 0;
  rusage used{};
  wait4(job.pid, &status, 0, &used);
  job.status = late ? "late" : std::to_string(status);
  auto seconds = [](const timeval& t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; };
  job.took_s = seconds(used.ru_utime) + seconds(used.ru_stime);   // it cannot wait for anything, and others may work too
}

// Past stdio, whose buffers would stay behind.
void answer(std::string_view text) {
  while (!text.empty()) {
    ssize_t done = write(1, text.data(), text.size());
    if (done <= 0) _exit(2);
    text.remove_prefix((size_t)done);
  }
}

void serve(char* text, size_t bytes, double limit_s, size_t count) {
  const char* mark = (const char*)memmem(text, bytes, "\njobs\n", 6);
  if (!mark) _exit(2);
  size_t common_bytes = (size_t)(mark - text);
  // Jobs stay where they are in the text, and their lists in one place: a child must find nothing of the others.
  std::vector<std::string_view> wanted;
  for (const char *at = mark + 6, *end; wanted.size() < count; at = end + 1) {
    end = (const char*)memchr(at, '\n', (size_t)(text + bytes - at));
    if (!end) _exit(2);
    wanted.emplace_back(at, (size_t)(end - at));
  }
  std::vector<Job> jobs(wanted.size());
  size_t started = 0, done = 0, side_by_side = (size_t)std::max(2l, sysconf(_SC_NPROCESSORS_ONLN));
  bool failed = false;   // one that did not end well: nobody needs the others
  while (done < jobs.size() && !failed) {
    size_t running = started - done;
    while (started < jobs.size() && running < side_by_side) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) _exit(2);
      Job& job = jobs[started];
      pid_t recorder = getpid();
      job.pid = fork();
      if (job.pid < 0) _exit(2);
      if (job.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != recorder) _exit(2);   // it ended before the line above
        std::string mine(wanted[started]);
        for (auto& other : jobs) std::fill(other.list.begin(), other.list.end(), '\0');
        record(text, common_bytes, mine, bytes, ends[1], (int)std::ceil(limit_s) + 1);   // the deadline comes first
      }
      close(ends[1]);
      job.from = ends[0];
      job.deadline = now_s() + limit_s;
      ++started, ++running;
    }
    std::vector<pollfd> waiting;
    std::vector<size_t> whose;
    double first = 1e300;
    for (size_t i = 0; i < started; ++i)
      if (jobs[i].from >= 0) {
        waiting.push_back({jobs[i].from, POLLIN, 0});
        whose.push_back(i);
        first = std::min(first, jobs[i].deadline);
      }
    poll(waiting.data(), waiting.size(), (int)std::max(1.0, (first - now_s()) * 1000));
    for (size_t k = 0; k < whose.size(); ++k) {
      Job& job = jobs[whose[k]];
      if (waiting[k].revents) {
        char piece[1 << 16];
        ssize_t got = read(job.from, piece, sizeof piece);
        if (got > 0) job.list.append(piece, (size_t)got), explicit_bzero(piece, (size_t)got);
        if (got > 0 && job.list.size() <= kMostAnswer) continue;
        finish(job, got > 0);
        ++done;
        failed = failed || job.status != "0";
      } else if (now_s() > job.deadline) {
        finish(job, true);
        ++done;
        failed = true;
      }
    }
  }
  for (auto& job : jobs) {
    if (job.from >= 0) finish(job, true);
    else if (!job.status.empty()) continue;
    job.list.clear();
    job.status = "skipped";
  }
  for (auto& job : jobs) {
    answer(job.status + " " + std::to_string(job.list.size()) + " " + std::to_string(job.took_s) + "\n");
    answer(job.list);
  }
}

// Where the system allows no more, one byte of addresses may be alike.
void limit_stack(uint64_t bytes) {
  rlimit stack{};
  getrlimit(RLIMIT_STACK, &stack);
  stack.rlim_cur = std::min<rlim_t>(bytes, stack.rlim_max);
  setrlimit(RLIMIT_STACK, &stack);
}

// The last call, where stepping::step() looks on.
__attribute__((noinline)) void call_stepped(Call call, uint64_t away, uint64_t of_heap) {
  stepping::wait_here();
  for (auto& [times, values] : request.calls)
    for (size_t i = 0; i < times; ++i) {
      bool last = i + 1 == times && &values == &request.calls.back().second;
      begin_call(last);
      if (last) stepping::announce((const void*)call, request.window + away, request.window_bytes, (uint64_t)request.stream, of_heap);
      one_call(call, values);
    }
  stepping::wait_here();
  put("end");
  hand_over();
}

// One of two processes that are stepped: started anew, so that all of it lies elsewhere.
[[noreturn, gnu::noinline]] void be_one_of_two(uint64_t away, uint64_t seed, int seconds) {
  limit_stack(8 << 20);
  mallopt(M_MMAP_MAX, 0);   // large blocks, too, are at the same place of the heap in both
  const Drawn drawn{away != 0, seed};
  std::vector<char> text;
  char piece[1 << 16];
  for (ssize_t got; (got = read(0, piece, sizeof piece)) > 0;) text.insert(text.end(), piece, piece + got);
  text.push_back('\0');
  char* mark = (char*)memmem(text.data(), text.size(), "\njobs\n", 6);
  if (!mark) _exit(2);
  std::string line(mark + 6);
  Call call = load(text.data(), (size_t)(mark - text.data()), line, text.size(), 1, seconds, &drawn);
  settle();
  for (uint64_t bits = seed >> 16; bits; bits >>= 8) {
    volatile char* kept = (char*)malloc(16 + 16 * (bits & 0xff));
    kept[0] = 0;
  }
  volatile char* room = (char*)__builtin_alloca(((uintptr_t)__builtin_frame_address(0) & 0xffff) + drawn.of_stack + 64);
  room[0] = 0;
  errno = away ? EAGAIN : ENOENT;
  call_stepped(call, away, drawn.of_heap);
  _exit(0);
}

// What both write until they end, or until the deadline.
bool read_both(const int (&from)[2], std::string (&into)[2], double deadline) {
  bool open[2] = {true, true};
  while ((open[0] || open[1]) && now_s() < deadline) {
    pollfd waiting[2];
    for (int i = 0; i < 2; ++i) waiting[i] = {open[i] ? from[i] : -1, POLLIN, 0};
    poll(waiting, 2, (int)std::max(1.0, (deadline - now_s()) * 1000));
    for (int i = 0; i < 2; ++i) {
      if (!open[i] || !waiting[i].revents) continue;
      char piece[1 << 16];
      ssize_t got = read(from[i], piece, sizeof piece);
      open[i] = got > 0 && into[i].size() <= kMostAnswer;
      if (got > 0) into[i].append(piece, (size_t)got);
    }
  }
  return !open[0] && !open[1];
}

constexpr int kMostStarts = 40, kSurelyFixed = 8;

// Starts two processes, each with a job on its standard input, and has them stepped; what step() says, and the lists.
std::string step_once(const std::string (&jobs)[2], double deadline, const std::string& seconds, uint64_t away, uint64_t seed, const stepping::How& how) {
  int processes[2] = {-1, -1}, from[2] = {-1, -1};
  for (int i = 0; i < 2; ++i) {
    int file = memfd_create("job", MFD_CLOEXEC), ends[2];
    if (file < 0 || write(file, jobs[i].data(), jobs[i].size()) != (ssize_t)jobs[i].size() || pipe2(ends, O_CLOEXEC) != 0) _exit(2);
    lseek(file, 0, SEEK_SET);
    from[i] = ends[0];
    pid_t recorder = getpid();
    processes[i] = fork();
    if (processes[i] < 0) _exit(2);
    if (processes[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != recorder) _exit(2);
      stepping::be_stepped();
      dup2(file, 0);
      dup2(ends[1], 1);
      limit_stack(i ? Drawn::room(seed) : 8 << 20);
      char moved[32], drawn[32];   // as long in both, so that memory is used alike
      snprintf(moved, sizeof moved, "%020llu", i ? (unsigned long long)away : 0ull);
      snprintf(drawn, sizeof drawn, "%020llu", (unsigned long long)seed);
      const char* words[] = {program, "stepped", moved, drawn, seconds.c_str(), unsafe ? "unsafe" : "safe", nullptr};
      char* const nothing[] = {nullptr};
      execve(program, (char* const*)words, nothing);
      _exit(2);
    }
    close(file);
    close(ends[1]);
  }
  std::string found = stepping::step(processes, deadline, how), lists[2];
  if (found.rfind("steps", 0) == 0) {
    stepping::go_on(processes);
    if (!read_both(from, lists, deadline)) found = "finding 0 does not hand over what it launches:";
    else found += "\n" + std::to_string(lists[0].size()) + "\n" + lists[0] + lists[1];
  }
  for (int end : from) close(end);
  for (int process : processes) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, __WALL);
  }
  return found;
}

void serve_stepped(const char* text, size_t bytes, double limit_s, uint64_t away, uint64_t seed, bool clear) {
  const char* mark = (const char*)memmem(text, bytes, "\njobs\n", 6);
  if (!mark) _exit(2);
  const char *first = mark + 6, *stop = (const char*)memchr(first, '\n', (size_t)(text + bytes - first));
  if (!stop) _exit(2);
  const char *second = stop + 1, *last = (const char*)memchr(second, '\n', (size_t)(text + bytes - second));
  if (!last) _exit(2);
  const std::string common(text, (size_t)(first - text)), jobs[2] = {common + std::string(first, stop), common + std::string(second, last)};
  const std::string seconds = std::to_string((int)std::ceil(limit_s) + 1);
  std::string found = stepping::kAgain;
  // Large libraries begin at whole pages of 2 MiB on some systems: no use in asking for more of these there.
  static int alike[stepping::kParts] = {};   // how often in a row; of bits that are drawn, once in sixteen or less
  for (int i = 0; i < kMostStarts && found.rfind(stepping::kAgain, 0) == 0; ++i) {
    unsigned fixed = 0, now = 0;
    for (int k = 0; k < stepping::kParts; ++k) fixed |= (unsigned)(alike[k] >= kSurelyFixed) << k;
    found = step_once(jobs, now_s() + limit_s, seconds, away, seed, {clear, fixed});
    if (sscanf(found.c_str(), "again %u", &now) != 1) continue;
    for (int k = 0; k < stepping::kParts; ++k) alike[k] = now >> k & 1 ? alike[k] + 1 : 0;
  }
  if (found.rfind(stepping::kAgain, 0) == 0) found = "missing the system loads programs at addresses that are much alike";
  answer("step " + std::to_string(found.size()) + " 0\n");
  answer(found);
}

// Whether a child can be confined here at all, tried before there is any candidate; what is missing, in words.
std::string sandbox_gaps() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  pid_t pid = fork();
  if (pid == 0) {
    std::string gaps = confine("/", 4ull << 30, 5, false);
    if (gaps.empty()) gaps = close_sandbox();
    if (write(ends[1], gaps.data(), gaps.size()) < 0) _exit(1);
    _exit(gaps.empty() ? 0 : 1);
  }
  close(ends[1]);
  char text[512] = "";
  ssize_t got = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  int status = 0;
  if (pid > 0) waitpid(pid, &status, 0);
  if (got > 0) return std::string(text, (size_t)got);
  return pid > 0 && status == 0 ? "" : "a confined process cannot run";
}

}  // namespace

int main(int count, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  program = words[0];
  unsafe = !strcmp(words[count - 1], "unsafe");
  // What candidates link against is loaded before they are confined, so that nothing else needs to be opened then.
  for (const char* name : {"libm.so.6", "libgcc_s.so.1", "libstdc++.so.6"}) dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (count == 6 && !strcmp(words[1], "stepped"))
    be_one_of_two(strtoull(words[2], nullptr, 10), strtoull(words[3], nullptr, 10), atoi(words[4]));
  setvbuf(stdin, nullptr, _IONBF, 0);   // nothing of a request stays behind in a buffer, nor in memory (kept.cpp)
  answer("ready " + sandbox_gaps() + "\n");
  char* line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, stdin) > 0) {
    size_t bytes = 0, count = 0;
    double limit_s = 0;
    unsigned long long away = 0, seed = 0;
    int clear = 0;
    int words_read = sscanf(line, "%zu %lf %zu step %llu %llu %d", &bytes, &limit_s, &count, &away, &seed, &clear);
    if (words_read < 3) return 2;
    std::vector<char> text(bytes + 1);
    if (fread(text.data(), 1, bytes, stdin) != bytes) return 2;
    if (words_read == 6) serve_stepped(text.data(), bytes, limit_s, away, seed, clear != 0);
    else serve(text.data(), bytes, limit_s, count);
    std::fill(text.begin(), text.end(), '\0');
  }
  _exit(0);
}
