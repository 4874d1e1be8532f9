#include "tests/support/sqlite_calls.h"

#include <sqlite3.h>

namespace {

thread_local int64_t calls = 0;
sqlite3_mem_methods system_memory;

void* allocate(int size) {
  ++calls;
  return system_memory.xMalloc(size);
}

void* reallocate(void* memory, int size) {
  ++calls;
  return system_memory.xRealloc(memory, size);
}

void release(void* memory) {
  ++calls;
  system_memory.xFree(memory);
}

int on_event(unsigned, void*, void*, void*) {
  ++calls;
  return 0;
}

int on_open(sqlite3* connection, char**, const struct sqlite3_api_routines*) {
  ++calls;
  return sqlite3_trace_v2(connection, SQLITE_TRACE_STMT | SQLITE_TRACE_ROW, on_event, nullptr);
}

// Runs before main, because SQLite must be configured before its first use. Statements and rows are traced. Everything
// else is detected by memory allocations, for which SQLite must keep no memory in reserve.
[[maybe_unused]] const bool kWatching = [] {
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &system_memory);
  sqlite3_mem_methods counting = system_memory;
  counting.xMalloc = allocate;
  counting.xRealloc = reallocate;
  counting.xFree = release;
  return sqlite3_config(SQLITE_CONFIG_MALLOC, &counting) == SQLITE_OK &&
         sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK &&
         sqlite3_auto_extension(reinterpret_cast<void (*)()>(on_open)) == SQLITE_OK;
}();

}  // namespace

int64_t runner::support::sqlite_calls_of_this_thread() {
  return calls;
}
