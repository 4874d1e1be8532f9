#include "tests/store/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t count = 0;

}  // namespace

int64_t runner::store::allocations_of_this_thread() {
  return count;
}

void* operator new(size_t size) {
  ++count;
  if (void* memory = std::malloc(size ? size : 1)) return memory;
  throw std::bad_alloc();
}

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(size ? size : 1);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
