// Objects that a hook registered to be saved in the checkpoints of its run, in the order of registration.
//
// An object is a table of plain data, whose contents are saved and restored, or a table with the functions
// state_dict(self) and load_state_dict(self, data). The objects are in the registry of the Lua state. Not thread-safe.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// Registers the table at `index`. If a checkpoint was restored before, restores the table's contents at once. Throws
// Error(kRun) if the value is not a table.
void register_object(lua_State* state, int index);

// Throws Error(kRun) if the restored checkpoint has more objects than are registered.
void check_registered(lua_State* state);

// Returns the contents of all objects as a list in the format of plain_data.h. Throws Error(kRun) if an object has
// values that a checkpoint cannot store, or if check_registered() does.
std::string registered_text(lua_State* state);

// Pops the list of a checkpoint from the top of the stack and restores the contents of the objects.
void restore_registered(lua_State* state);

}  // namespace runner::lua
