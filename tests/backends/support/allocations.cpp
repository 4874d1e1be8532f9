#include "tests/backends/support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include <link.h>

namespace {

std::atomic<int64_t> count{0};

// Where oneDNN's code lies: what it allocates inside a product is its own.
struct Library {
  uintptr_t begin = 0, end = 0;

  Library() {
    dl_iterate_phdr(
        [](dl_phdr_info* library, size_t, void* self) {
          if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
          for (int i = 0; i < library->dlpi_phnum; ++i) {
            const auto& segment = library->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
            static_cast<Library*>(self)->begin = library->dlpi_addr + segment.p_vaddr;
            static_cast<Library*>(self)->end = library->dlpi_addr + segment.p_vaddr + segment.p_memsz;
          }
          return 1;
        },
        this);
  }
};

void* counted(void* memory, const void* caller) {
  static const Library onednn;
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at < onednn.begin || at >= onednn.end) count.fetch_add(1, std::memory_order_relaxed);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace runner::backends::testing {

int64_t allocations() {
  return count.load();
}

}  // namespace runner::backends::testing

// The array forms of the library call these.  The nothrow form is here because AddressSanitizer has one of its own.
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size);
}
void* operator new(size_t size) {
  return counted(std::malloc(size), __builtin_return_address(0));
}
void* operator new(size_t size, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(align, (size + align - 1) / align * align), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
