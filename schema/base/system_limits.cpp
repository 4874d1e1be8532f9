#include "schema/base/system_limits.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

namespace runner {
namespace {

// None if there is no limit.
std::optional<rlim_t> limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

// Returns the peak address space of this process in bytes, because a failed allocation may have been undone; 0 if
// unknown.
rlim_t peak_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (rlim_t kib = 0; word == "VmPeak:" && status >> kib) return kib << 10;
  }
  return 0;
}

// Returns the limit on address space if one more thread or process would have exceeded it.
std::optional<rlim_t> reached_memory_limit() {
  constexpr rlim_t kMargin = 64 << 20;  // reserved by the first allocations of a thread, in addition to its stack
  const auto limit = limit_of(RLIMIT_AS);
  const rlim_t stack = limit_of(RLIMIT_STACK).value_or(8 << 20);
  return limit && peak_address_space() + stack + kMargin >= *limit ? limit : std::nullopt;
}

// Root has no limit on processes.
std::optional<rlim_t> process_limit() {
  return ::geteuid() == 0 ? std::nullopt : limit_of(RLIMIT_NPROC);
}

}  // namespace

std::string system_reason(int error) {
  std::string reason = std::strerror(error);
  const auto size = limit_of(RLIMIT_FSIZE), files = limit_of(RLIMIT_NOFILE);
  if (error == EFBIG && size) reason += fmt::format("; the limit is {} KiB per file, raise `ulimit -f`", *size >> 10);
  if (error == EMFILE && files) reason += fmt::format("; the limit is {} per process, raise `ulimit -n`", *files);
  return reason;
}

void check_stack_limit() {
  constexpr auto kEnough = int64_t{256} << 10;  // bytes
  const auto stack = limit_of(RLIMIT_STACK);
  RUN_CHECK(!stack || static_cast<int64_t>(*stack) >= kEnough, ErrorKind::kUsage,
            "the stack is limited to {} KiB, but {} KiB are needed; raise `ulimit -s`", *stack >> 10, kEnough >> 10);
}

std::string process_limits() {
  std::string text;
  if (const auto memory = reached_memory_limit()) {
    text = fmt::format("the limit is {} MiB of address space per process, raise `ulimit -v`; ", *memory >> 20);
  } else if (const auto processes = process_limit()) {
    text = fmt::format("the limit is {} processes and threads per user, raise `ulimit -u`; ", *processes);
  }
  return text + "use fewer `threads` or a smaller num_processes";
}

Error out_of_memory(ErrorKind kind, std::string_view when, std::string_view remedy) {
  const auto memory = limit_of(RLIMIT_AS);
  const std::string limit = memory ? fmt::format("; the limit is {} MiB per process (`ulimit -v`)", *memory >> 20) : "";
  return {kind, fmt::format("out of memory{}{}; {}", when, limit, remedy)};
}

Error error_of(const std::exception& failure) {
  if (const auto* const error = dynamic_cast<const Error*>(&failure)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr)
    return out_of_memory(ErrorKind::kRun, "", "use a smaller data.batch_size or model");
  const auto* system = dynamic_cast<const std::system_error*>(&failure);
  const bool of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&failure) != nullptr;
  if (system != nullptr && !of_file && system->code().value() == EAGAIN)
    return {ErrorKind::kRun, fmt::format("cannot start a thread: {}; {}", std::strerror(EAGAIN), process_limits())};
  return {ErrorKind::kRun, fmt::format("internal error: {}", failure.what())};
}

}  // namespace runner
