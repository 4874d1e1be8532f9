// A library to preload into a program: makes some of its allocations fail. Allocations count from 1 at the start of
// main(). Those from FAIL_FROM to FAIL_TO fail, whichever thread makes them. With FAIL_COUNT, prints at exit how many
// there were.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

extern "C" {
void* __libc_malloc(size_t);            // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t, size_t);    // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void*, size_t);    // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(size_t, size_t);  // NOLINT(bugprone-reserved-identifier)
}

namespace {

using Main = int (*)(int, char**, char**);

std::atomic<long> allocations{0};
std::atomic<bool> counts{false};
long fail_from = 0, fail_to = -1;
Main real_main;

long number_in(const char* variable, long otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atol(text);
}

bool fails() {
  if (!counts.load(std::memory_order_relaxed)) return false;
  const long number = allocations.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < fail_from || number > fail_to) return false;
  errno = ENOMEM;
  return true;
}

int counting_main(int argc, char** argv, char** environment) {
  fail_from = number_in("FAIL_FROM", 0);
  fail_to = number_in("FAIL_TO", -1);
  counts = true;
  return real_main(argc, argv, environment);
}

struct Report {
  ~Report() {
    counts = false;
    if (std::getenv("FAIL_COUNT") != nullptr) std::fprintf(stderr, "allocations: %ld\n", allocations.load());
  }
} report;

}  // namespace

extern "C" {

void* malloc(size_t size) {
  return fails() ? nullptr : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  return fails() ? nullptr : __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  return fails() ? nullptr : __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  return fails() ? nullptr : __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const result = memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

// Static objects are constructed before main(), where no program can handle a failure.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name in the C library.
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*loader_fini)(),
                      void* stack_end) {
  real_main = main;
  const auto next = reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(counting_main, argc, argv, init, fini, loader_fini, stack_end);
}

}  // extern "C"
