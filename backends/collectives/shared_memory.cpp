#include "backends/collectives/shared_memory.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/runtime/available_memory.h"
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

size_t SharedMemory::page_bytes() {
  return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Takes the pages at once: one that is missing later would end whoever touches it.
void SharedMemory::extend(size_t end) {
  struct stat status {};
  ::fstat(descriptor_, &status);
  const auto size = static_cast<size_t>(status.st_size);
  check_available(end - size);
  errno = ::posix_fallocate(descriptor_, status.st_size, static_cast<off_t>(end - size));
  if (errno != 0) no_memory(end - size);
}

std::shared_ptr<std::byte> SharedMemory::map(size_t offset, size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<std::byte> memory = newest_.lock();
  if (memory != nullptr && newest_offset_ == offset) return memory;
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor_,
                            static_cast<off_t>(offset));
  if (data == MAP_FAILED) no_memory(bytes);
  memory = {static_cast<std::byte*>(data), [bytes](std::byte* mapped) { ::munmap(mapped, bytes); }};
  newest_offset_ = offset;
  newest_ = memory;
  return memory;
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, bytes_);
  ::close(descriptor_);
}

}  // namespace runner::backends
