#include "runner/cli/out_of_memory.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "schema/base/error.h"

namespace runner::cli {
namespace {

constexpr size_t kReserve = size_t{2} << 20;  // bytes; malloc extends its heap by at least 1 MiB if it cannot grow

std::atomic<void*> reserve;
std::terminate_handler report_bug;  // of the C++ library; prints the exception and aborts

void release_reserve() {
  if (void* const memory = reserve.exchange(nullptr)) ::munmap(memory, kReserve);
  throw std::bad_alloc();
}

// Even an exception object needs memory. Without any, there is no current exception. Another thread may have released
// some memory since.
bool is_out_of_memory() {
  if (std::current_exception() == nullptr)
    return reserve == nullptr || std::malloc(kReserve) == nullptr;  // NOLINT: the process ends
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void terminate() {
  if (is_out_of_memory()) {
    constexpr std::string_view kText = "error: out of memory; use a smaller data.batch_size or model\n";
    static_cast<void>(!::write(STDERR_FILENO, kText.data(), kText.size()));  // the exit code remains
    ::_exit(exit_code(ErrorKind::kRun));
  }
  report_bug();
  std::abort();
}

}  // namespace

void prepare_for_exhausted_memory() {
  void* const memory = ::mmap(nullptr, kReserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) reserve = memory;
  std::set_new_handler(release_reserve);
  report_bug = std::set_terminate(terminate);
}

}  // namespace runner::cli
