// Detects changes of the values that a Lua function can keep between calls: its upvalues, and recursively the tables
// and functions that it can reach. A snapshot tells whether any of them changed.
//
// There are no proxies and no marks, so that code runs at full speed on its own tables; compare() reads all values. The
// snapshot references every value, so the garbage collector cannot reuse an address meanwhile.
//
// All functions use the stack and may raise Lua errors (out of memory): call them in protected mode.
#pragma once

#include <cstdint>

struct lua_State;

namespace runner::lua {

// Pushes a new, empty snapshot.
void push_snapshot(lua_State* state);

// Pops the function or table at the top of the stack and adds it and everything that it can reach to the snapshot at
// `index`. `name`: its name in messages; entries of a table named "" are shown by their keys alone. Throws Error(kRun)
// if a coroutine is reached, because its local variables cannot be examined.
void add_root(lua_State* state, int index, const char* name);

// Returns the number of values in the snapshot at `index`, to which the cost of compare() is proportional.
int64_t snapshot_size(lua_State* state, int index);

// Returns true if no value changed. Otherwise pushes the name of one that did, such as "count" or "cache.hits".
bool compare(lua_State* state, int index);

}  // namespace runner::lua
