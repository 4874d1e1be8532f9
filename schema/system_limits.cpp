#include "schema/system_limits.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <optional>
#include <system_error>

#include <sys/resource.h>

namespace runner {
namespace {

// Empty: there is none.
std::optional<rlim_t> limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

}  // namespace

std::string system_reason(int error) {
  std::string reason = std::strerror(error);
  const auto limit = limit_of(RLIMIT_FSIZE);
  if (error == EFBIG && limit) reason += fmt::format("; a file may have {} KiB here, raise `ulimit -f`", *limit >> 10);
  return reason;
}

std::string process_limits() {
  const auto memory = limit_of(RLIMIT_AS), processes = limit_of(RLIMIT_NPROC);
  std::string text;
  if (memory) text += fmt::format("a process may have {} MiB of address space, raise `ulimit -v`; ", *memory >> 20);
  if (processes) text += fmt::format("a user may have {} processes and threads, raise `ulimit -u`; ", *processes);
  return text + "fewer `threads` or a smaller num_processes need less";
}

Error error_of(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    const auto memory = limit_of(RLIMIT_AS);
    return {
        ErrorKind::kRun,
        fmt::format("out of memory{}; a smaller data.batch_size or model may help",
                    memory ? fmt::format(", of which a process may have {} MiB (`ulimit -v`)", *memory >> 20) : "")};
  }
  const auto* system = dynamic_cast<const std::system_error*>(&failure);
  const bool of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&failure) != nullptr;
  if (system != nullptr && !of_file && system->code().value() == EAGAIN)
    return {ErrorKind::kRun, fmt::format("cannot start a thread: {}; {}", std::strerror(EAGAIN), process_limits())};
  return {ErrorKind::kRun, fmt::format("internal error: {}", failure.what())};
}

}  // namespace runner
