// Arrays that are written whole before they are read: elements begin undefined, and large arrays lie on huge pages.
//
// A std::vector of 25 MB is cleared first, page by page at 6'000 faults; this is neither.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include <sys/mman.h>

namespace runner {

// T: of trivial construction, such as float.
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
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kHugePage) return ::operator delete(memory);  // of a conditional, clang 14 calls both
    ::operator delete(memory, kAlignment);
  }

  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;  // undefined, where U() would be zero
  }

  bool operator==(const LargeAllocator&) const { return true; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr std::align_val_t kAlignment{kHugePage};
};

template <class T>
using LargeArray = std::vector<T, LargeAllocator<T>>;

}  // namespace runner
