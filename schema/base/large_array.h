// Arrays whose elements are written before they are read: elements are uninitialised, and large arrays use huge pages.
//
// A plain std::vector of 25 MB is zeroed first, with 6000 page faults.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace runner {

// `T`: trivially constructible, such as float.
template <class T>
class LargeAllocator {
 public:
  using value_type = T;

  LargeAllocator() = default;
  template <class U>
  explicit(false) LargeAllocator(const LargeAllocator<U>&) {}

  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
    void* const memory = ::operator new(bytes, kAlignment);
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint; may fail
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kHugePage) return ::operator delete(memory);  // as ?:, clang 14 would call both
    ::operator delete(memory, kAlignment);
  }

  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;  // uninitialised; U() would zero it
  }

  bool operator==(const LargeAllocator&) const { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr std::align_val_t kAlignment{kHugePage};
};

template <class T>
using LargeArray = std::vector<T, LargeAllocator<T>>;

}  // namespace runner
