// Limits the size of files that this process writes, as a full disk does. Not thread-safe.
#pragma once

#include <csignal>

#include <sys/resource.h>

namespace runner::support {

class FullDisk {
 public:
  // `largest`: bytes that a file may have. Larger ones fail with EFBIG.
  explicit FullDisk(rlim_t largest) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{largest, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*const handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before_{};
};

}  // namespace runner::support
