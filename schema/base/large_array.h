// Arrays whose elements are written before they are read: elements are uninitialised, and large arrays use huge pages.
//
// A plain std::vector of 25 MB is zeroed first, with 6000 page faults.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "schema/base/error.h"

namespace runner {

// `T`: trivially constructible, such as float.
template <class T>
class LargeAllocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;

  LargeAllocator() = default;
  // For large_array_in().
  explicit LargeAllocator(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}
  template <class U>
  explicit(false) LargeAllocator(const LargeAllocator<U>&) {}
  // Copies of an array have memory of their own.
  LargeAllocator select_on_container_copy_construction() const { return {}; }

  T* allocate(size_t count) {
    if (memory_ != nullptr) {
      RUN_ASSERT(!std::exchange(is_used_, true));  // an array in given memory must not grow
      return reinterpret_cast<T*>(memory_.get());
    }
    const size_t bytes = count * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(::operator new(bytes));
    void* const memory = ::operator new(bytes, kAlignment);
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint; may fail
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (memory_ != nullptr) return;
    if (count * sizeof(T) < kHugePage) return ::operator delete(memory);  // as ?:, clang 14 would call both
    ::operator delete(memory, kAlignment);
  }

  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;  // uninitialised; U() would zero it
  }

  bool operator==(const LargeAllocator& other) const { return memory_ == other.memory_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr std::align_val_t kAlignment{kHugePage};

  std::shared_ptr<std::byte> memory_ = nullptr;  // for the only allocation; null: the heap
  bool is_used_ = false;
};

template <class T>
using LargeArray = std::vector<T, LargeAllocator<T>>;

// Returns an array of the `count` elements that are in `memory`, which it keeps. It must neither grow nor be assigned
// to: that would write to the memory.
template <class T>
LargeArray<T> large_array_in(std::shared_ptr<std::byte> memory, size_t count) {
  return LargeArray<T>(count, LargeAllocator<T>(std::move(memory)));
}

}  // namespace runner
