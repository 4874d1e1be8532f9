#include "tests/support/allocations.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include <link.h>

namespace {

std::atomic<int64_t> count{0}, onednn_count{0};
std::atomic<size_t> largest{0};
thread_local int64_t count_of_this_thread = 0;
thread_local int64_t failing_on_this_thread = -1;  // the count at which an allocation fails

// Address range of oneDNN's code; empty in a binary without it.
struct OneDnnCode {
  uintptr_t begin = 0, end = 0;

  OneDnnCode() {
    dl_iterate_phdr(
        [](dl_phdr_info* library, size_t, void* self) {
          if (std::strstr(library->dlpi_name, "libdnnl") == nullptr) return 0;
          for (int i = 0; i < library->dlpi_phnum; ++i) {
            const auto& segment = library->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
            static_cast<OneDnnCode*>(self)->begin = library->dlpi_addr + segment.p_vaddr;
            static_cast<OneDnnCode*>(self)->end = library->dlpi_addr + segment.p_vaddr + segment.p_memsz;
          }
          return 1;
        },
        this);
  }

  bool holds(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at >= begin && at < end;
  }
};

// Counts an allocation. Returns false if it must fail.
bool admit(size_t size, const void* caller) noexcept {
  static const OneDnnCode onednn;
  if (onednn.holds(caller)) {
    onednn_count.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  count.fetch_add(1, std::memory_order_relaxed);
  for (size_t before = largest.load(); size > before && !largest.compare_exchange_weak(before, size);) {
  }
  return count_of_this_thread++ != failing_on_this_thread;
}

void* allocate(size_t size, const void* caller) noexcept {
  return admit(size, caller) ? std::malloc(size) : nullptr;
}

void* allocate(size_t size, std::align_val_t alignment, const void* caller) noexcept {
  const auto align = static_cast<size_t>(alignment);
  return admit(size, caller) ? std::aligned_alloc(align, (size + align - 1) / align * align) : nullptr;
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace runner::support {

int64_t allocations() {
  return count.load();
}
int64_t allocations_of_this_thread() {
  return count_of_this_thread;
}
int64_t onednn_allocations() {
  return onednn_count.load();
}
size_t take_largest_allocation() {
  return largest.exchange(0);
}
void fail_allocation(int64_t which) {
  failing_on_this_thread = which < 0 ? -1 : count_of_this_thread + which;
}

}  // namespace runner::support

// All forms must be replaced: those of a sanitizer's library would not pair with ours, and the caller of an array form
// is visible only here.
void* operator new(size_t size) {
  return or_throw(allocate(size, __builtin_return_address(0)));
}
void* operator new[](size_t size) {
  return or_throw(allocate(size, __builtin_return_address(0)));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, __builtin_return_address(0));
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, __builtin_return_address(0));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment, __builtin_return_address(0)));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment, __builtin_return_address(0)));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
