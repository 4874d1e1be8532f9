#include "backends/collectives/shared_memory.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "schema/error.h"

namespace runner::backends {
namespace {

[[noreturn]] void no_memory(size_t bytes) {
  const int reason = errno;
  fail(ErrorKind::kRun, "cannot share {} bytes of memory between processes: {}; fewer processes need less", bytes,
       std::strerror(reason));
}

int create(size_t bytes) {
  const int descriptor = ::memfd_create("runner", MFD_CLOEXEC);
  if (descriptor < 0) no_memory(bytes);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) return descriptor;
  ::close(descriptor);
  no_memory(bytes);
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : SharedMemory(create(bytes), bytes) {}

SharedMemory::SharedMemory(int descriptor, size_t bytes) : descriptor_(descriptor), bytes_(bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (data == MAP_FAILED) {
    ::close(descriptor);
    no_memory(bytes);
  }
  data_ = static_cast<std::byte*>(data);
}

SharedMemory SharedMemory::adopt(int descriptor) {
  struct stat status {};
  RUN_CHECK(::fstat(descriptor, &status) == 0 && status.st_size > 0, ErrorKind::kRun,
            "descriptor {} is no shared memory of runner's", descriptor);
  return {descriptor, static_cast<size_t>(status.st_size)};
}

SharedMemory::~SharedMemory() {
  if (data_ == nullptr) return;
  ::munmap(data_, bytes_);
  ::close(descriptor_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(other.descriptor_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

}  // namespace runner::backends
