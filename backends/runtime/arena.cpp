#include "backends/runtime/arena.h"

#include <sys/mman.h>

#include "backends/runtime/available_memory.h"
#include "schema/error.h"

namespace runner::backends {
namespace {

// Regions of this size and more are aligned to it, which lets the kernel back them with huge pages.
constexpr size_t kHugePage = size_t{2} << 20;

// From this size on it is worth asking whether there is so much: the system promises more than it has, and ends a
// process that takes it at its word.
constexpr size_t kLarge = size_t{64} << 20;

void check_available(size_t bytes) {
  if (bytes < kLarge) return;
  constexpr double kGiB = 1 << 30;
  const size_t available = available_memory();
  RUN_CHECK(bytes <= available, ErrorKind::kRun,
            "out of memory: {:.1f} GiB are needed at once for tensors, and {:.1f} GiB are free; a smaller model or "
            "data.batch_size helps",
            static_cast<double>(bytes) / kGiB, static_cast<double>(available) / kGiB);
}

}  // namespace

Arena::Arena(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  check_available(bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RUN_CHECK(memory != MAP_FAILED, ErrorKind::kRun, "out of memory: the system has no {} bytes for tensors", bytes);
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_POPULATE_WRITE);
  data_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace runner::backends
