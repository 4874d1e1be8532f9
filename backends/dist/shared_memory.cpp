#include "backends/dist/shared_memory.h"

#include <atomic>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/runtime/available_memory.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"

namespace runner::backends {
namespace {

[[noreturn]] void no_memory(size_t bytes, int error) {
  const bool is_limited = error == EFBIG;  // by setrlimit(2), since the memory is a file
  fail(ErrorKind::kRun, "cannot share {} bytes of memory between processes: {}; {}", bytes, system_reason(error),
       is_limited ? "shared memory counts as a file" : "use a smaller num_processes");
}

void allocate(const Descriptor& file, size_t offset, size_t bytes) {
  int error = EINTR;
  while (error == EINTR)
    error = ::posix_fallocate(file.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (error != 0) no_memory(bytes, error);
}

Descriptor new_file(size_t bytes) {
  Descriptor file(::memfd_create("runner", MFD_CLOEXEC));
  if (file.number() < 0) no_memory(bytes, errno);
  if (bytes > available_memory()) no_memory(bytes, ENOMEM);
  allocate(file, 0, bytes);
  return file;
}

using Pages = SharedMemory::Pages;

std::byte* map_file(const Descriptor& file, size_t offset, size_t bytes, Pages pages) {
  const int flags = MAP_SHARED | (pages == Pages::kNow ? MAP_POPULATE : 0);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file.number(), static_cast<off_t>(offset));
  if (data == MAP_FAILED) no_memory(bytes, errno);
  return static_cast<std::byte*>(data);
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : SharedMemory(new_file(bytes), bytes, Pages::kNow) {}

SharedMemory::SharedMemory(Descriptor file, size_t bytes, Pages pages)
    : file_(std::move(file)), bytes_(bytes), data_(map_file(file_, 0, bytes, pages)) {}

// The pages exist already. A process maps those that it touches: of many ranks, it touches few.
SharedMemory SharedMemory::adopt(int descriptor) {
  struct stat status {};
  RUN_CHECK(::fstat(descriptor, &status) == 0 && status.st_size > 0, ErrorKind::kRun,
            "descriptor {} is not shared memory of runner", descriptor);
  return {Descriptor(descriptor), static_cast<size_t>(status.st_size), Pages::kOnTouch};
}

SharedMemory SharedMemory::open_of(int64_t pid, std::string_view descriptor) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  RUN_CHECK(own >= 0, ErrorKind::kRun, "cannot open the shared memory {}: {}", path, system_reason(errno));
  return adopt(own);
}

size_t SharedMemory::page_bytes() {
  return static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

void SharedMemory::extend(size_t end, Pages pages) {
  struct stat status {};
  ::fstat(file_.number(), &status);
  const auto size = static_cast<size_t>(status.st_size);
  if (pages == Pages::kOnTouch) {
    if (::ftruncate(file_.number(), static_cast<off_t>(end)) != 0) no_memory(end - size, errno);
    return;
  }
  check_available(end - size);
  allocate(file_, size, end - size);
}

// The reference count over all processes is stored before the mapped memory.
std::shared_ptr<std::byte> SharedMemory::map(size_t offset, size_t bytes, Pages pages) {
  using Owners = std::atomic<uint32_t>;
  static_assert(Owners::is_always_lock_free && sizeof(Owners) <= kOwners);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<std::byte> memory = newest_.lock();
  if (memory != nullptr && newest_offset_ == offset) return memory;
  const size_t whole = kOwners + bytes;
  std::byte* const begin = map_file(file_, offset, whole, pages);
  reinterpret_cast<Owners*>(begin)->fetch_add(1);
  memory = {begin + kOwners, [begin, whole](std::byte*) {
              const bool last = reinterpret_cast<Owners*>(begin)->fetch_sub(1) == 1;
              if (last) ::madvise(begin, whole, MADV_REMOVE);
              ::munmap(begin, whole);
            }};
  newest_offset_ = offset;
  newest_ = memory;
  return memory;
}

SharedMemory::~SharedMemory() {
  ::munmap(data_, bytes_);
}

void take_pages(std::span<std::byte> memory) {
  const size_t before = reinterpret_cast<uintptr_t>(memory.data()) % SharedMemory::page_bytes();
  int error = EINTR;
  while (error == EINTR)
    error = ::madvise(memory.data() - before, memory.size() + before, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  if (error != 0 && error != EINVAL) no_memory(memory.size(), error);
}

}  // namespace runner::backends
