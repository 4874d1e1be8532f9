// What a Lua function can keep from one call to the next: its upvalues, tables, and those of the functions and tables
// that it reaches.  A snapshot says whether any of it has changed since.
//
// Neither proxies nor marks: code runs at its own speed on its own tables, and compare() reads them all.  The
// collector cannot give an address to something else meanwhile, because the snapshot holds every value.
//
// All functions work on the stack and may raise Lua errors (out of memory): call them in protected mode.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// Pushes a new snapshot, to which roots can be added.
void push_snapshot(lua_State* state);

// Adds the function or table at the top of the stack, which is taken off, and all that it reaches, to the snapshot at
// `index`.  `name` is what messages call it; entries of a table named "" go by their keys alone.  Throws Error(kRun)
// where a coroutine is reached, in which anything can hide.
void add_root(lua_State* state, int index, const char* name);

// How many values the snapshot at `index` holds: what compare() costs.
int64_t snapshot_size(lua_State* state, int index);

// True: all values are as they were.  Otherwise pushes the name of one that is not, such as "count" or "cache.hits".
bool compare(lua_State* state, int index);

}  // namespace runner::lua
