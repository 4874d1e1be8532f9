#include "tests/store/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t count = 0;
thread_local int64_t failing = -1;  // the count at which one fails

// Null where it is to fail.
void* allocate(size_t size) {
  return count++ == failing ? nullptr : std::malloc(size ? size : 1);
}

}  // namespace

int64_t runner::store::allocations_of_this_thread() {
  return count;
}

void runner::store::fail_allocation(int64_t which) {
  failing = which < 0 ? -1 : count + which;
}

void* operator new(size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
