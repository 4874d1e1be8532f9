#include "schema/base/system_limits.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/sanitizers.h"

namespace runner {
namespace {

// Sets a limit of this process while the object exists.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    rlimit limit = before_;
    limit.rlim_cur = value;
    EXPECT_EQ(::setrlimit(resource_, &limit), 0);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

// Returns the kernel's figure.
rlim_t peak_kib() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line) && !line.starts_with("VmPeak:")) {
  }
  return std::stoull(line.substr(line.find(':') + 1));
}

TEST(SystemLimits, AreNamedInErrors) {
  EXPECT_EQ(system_reason(ENOENT), "No such file or directory");
  const Limit files(RLIMIT_FSIZE, rlim_t{3} << 30);
  EXPECT_EQ(system_reason(EFBIG), "File too large; the limit is 3145728 KiB per file, raise `ulimit -f`");
  const Limit open_files(RLIMIT_NOFILE, 321);
  EXPECT_EQ(system_reason(EMFILE), "Too many open files; the limit is 321 per process, raise `ulimit -n`");
  EXPECT_EQ(system_reason(ENOENT), "No such file or directory");
}

TEST(SystemLimits, ExplainOtherExceptions) {
  const std::system_error no_thread(EAGAIN, std::generic_category());
  const std::filesystem::filesystem_error of_file("x", std::error_code(EAGAIN, std::generic_category()));
  EXPECT_EQ(error_of(std::runtime_error("odd")).message(), "internal error: odd");
  EXPECT_TRUE(error_of(of_file).message().starts_with("internal error: ")) << error_of(of_file).message();
  EXPECT_EQ(error_of(std::bad_alloc()).message(), "out of memory; use a smaller data.batch_size or model");
  EXPECT_TRUE(error_of(no_thread).message().starts_with("cannot start a thread: Resource temporarily unavailable; "));
  const Limit memory(RLIMIT_AS, rlim_t{1} << 45);
  EXPECT_EQ(
      error_of(std::bad_alloc()).message(),
      "out of memory; the limit is 33554432 MiB per process (`ulimit -v`); use a smaller data.batch_size or model");
}

// If both limits are set, the message names the one that this process can have reached.
TEST(SystemLimits, NameTheLimitThatPreventsThreads) {
  const std::string advice = "use fewer `threads` or a smaller num_processes";
  const Limit processes(RLIMIT_NPROC, 1234);
  const auto limits_of_unprivileged_user = [] {
    // Changes the user of this thread only, because Linux threads have separate user ids; the real user id stays.
    ::syscall(SYS_setresuid, -1, 65534, -1);
    std::string text = process_limits();
    ::syscall(SYS_setresuid, -1, ::getuid(), -1);
    return text;
  };
  const std::string of_user = "the limit is 1234 processes and threads per user, raise `ulimit -u`; " + advice;
  if (::getuid() == 0) {
    EXPECT_EQ(process_limits(), advice) << "root has no limit";
    EXPECT_EQ(limits_of_unprivileged_user(), of_user);
  } else {
    EXPECT_EQ(process_limits(), of_user);
  }
  if (support::kSanitized) return;  // a sanitizer needs more address space than the limit
  const Limit far(RLIMIT_AS, rlim_t{1} << 45);
  EXPECT_EQ(process_limits().find("ulimit -v"), std::string::npos);
  const Limit near(RLIMIT_AS, (peak_kib() + 1024) << 10);
  const std::string of_memory = fmt::format("the limit is {} MiB of address space per process, raise `ulimit -v`; {}",
                                            (peak_kib() + 1024) >> 10, advice);
  EXPECT_EQ(process_limits(), of_memory);
  if (::getuid() == 0) {
    EXPECT_EQ(limits_of_unprivileged_user(), of_memory);
  }
}

TEST(SystemLimits, ExhaustedMemoryIsReportedWithWhatToDo) {
  const Error error = out_of_memory(ErrorKind::kData, " while x was read", "use less of it");
  EXPECT_EQ(error.kind(), ErrorKind::kData);
  EXPECT_TRUE(error.message().starts_with("out of memory while x was read; ")) << error.message();
  EXPECT_TRUE(error.message().ends_with("; use less of it")) << error.message();
}

}  // namespace
}  // namespace runner
