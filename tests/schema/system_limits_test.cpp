#include "schema/system_limits.h"

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace runner {
namespace {

// A limit of this process, as long as it lives.
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

TEST(SystemLimits, AreNamedWhereTheyAreMet) {
  EXPECT_EQ(system_reason(ENOENT), "No such file or directory");
  const Limit files(RLIMIT_FSIZE, rlim_t{3} << 30);
  EXPECT_EQ(system_reason(EFBIG), "File too large; a file may have 3145728 KiB here, raise `ulimit -f`");
  EXPECT_EQ(system_reason(ENOENT), "No such file or directory");
}

TEST(SystemLimits, ExplainWhatIsNoError) {
  const std::system_error no_thread(EAGAIN, std::generic_category());
  const std::filesystem::filesystem_error of_file("x", std::error_code(EAGAIN, std::generic_category()));
  EXPECT_EQ(error_of(std::runtime_error("odd")).message(), "internal error: odd");
  EXPECT_TRUE(error_of(of_file).message().starts_with("internal error: ")) << error_of(of_file).message();
  EXPECT_EQ(error_of(std::bad_alloc()).message(), "out of memory; a smaller data.batch_size or model may help");
  const Limit processes(RLIMIT_NPROC, 1234);
  EXPECT_EQ(error_of(no_thread).message(),
            "cannot start a thread: Resource temporarily unavailable; a user may have 1234 processes and threads, "
            "raise `ulimit -u`; fewer `threads` or a smaller num_processes need less");
  const Limit memory(RLIMIT_AS, rlim_t{1} << 45);
  EXPECT_EQ(error_of(std::bad_alloc()).message(),
            "out of memory, of which a process may have 33554432 MiB (`ulimit -v`); a smaller data.batch_size or model "
            "may help");
  EXPECT_NE(process_limits().find("a process may have 33554432 MiB of address space, raise `ulimit -v`; "),
            std::string::npos);
}

}  // namespace
}  // namespace runner
