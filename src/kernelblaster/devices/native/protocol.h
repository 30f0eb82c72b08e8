// How the judge talks to a player, the process that replays launch lists: commands are lines of words, answers are lines
// of JSON, both over one local socket, which also carries descriptors of shared memory.
#pragma once
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sstream>
#include <string>
#include <vector>

inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += (unsigned char)c < 32 ? ' ' : c;
  }
  return result + "\"";
}

// The socket: standard input, or the one at `path`, in some folder, for players that are started by a tool.
class Channel {
 public:
  bool open_at(const char* path) {
    if (!path) return true;
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string whole = path;
    const size_t end = whole.rfind('/');
    if (end == std::string::npos) return false;
    // Addresses of sockets have at most 107 letters; the folder may have more.
    const int folder = open(whole.substr(0, end + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, path + end + 1);
    const bool connected = connect(fd_, (sockaddr*)&address, sizeof address) == 0;
    close(folder);
    return connected;
  }
  // The next line; false at the end. Descriptors that came along wait in `descriptors`.
  bool line(std::string* text) {
    for (;;) {
      size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos) {
        *text = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        searched_ = 0;
        return true;
      }
      searched_ = buffer_.size();
      if (!more()) return false;
    }
  }
  void answer(const std::string& fields) {
    std::string text = "{" + fields + "}\n";
    for (size_t at = 0; at < text.size();) {
      ssize_t done = send(fd_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (done <= 0) _exit(0);
      at += (size_t)done;
    }
  }
  void fail(const std::string& what) { answer("\"fault\": " + quoted(what)); }
  void ok() { answer("\"ok\": true"); }

  std::deque<int> descriptors;

 private:
  bool more() {
    char piece[1 << 16];
    alignas(cmsghdr) char control[CMSG_SPACE(256 * sizeof(int))];
    iovec data{piece, sizeof piece};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0) return false;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_type != SCM_RIGHTS) continue;
      size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
        descriptors.push_back(fd);
      }
    }
    buffer_.append(piece, (size_t)got);
    return true;
  }
  int fd_ = 0;
  size_t searched_ = 0;
  std::string buffer_;
};
