#include "backends/runtime/arena.h"

#include <sys/mman.h>

#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// The kernel may use huge pages for regions of at least this size.
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Arena::Arena(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  check_available(bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RUN_CHECK(memory != MAP_FAILED, ErrorKind::kRun, "out of memory: cannot allocate {} bytes for tensors", bytes);
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_POPULATE_WRITE);
  data_ = static_cast<std::byte*>(memory);
}

Arena::~Arena() {
  if (data_) munmap(data_, bytes_);
}

}  // namespace runner::backends
