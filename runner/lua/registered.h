// Objects that a hook has registered to be in the states of its run, in the order of registration.
//
// An object is a table of plain data, whose contents are kept and put back, or one with functions state_dict(self) and
// load_state_dict(self, data).  They live in the registry of the state; call from one thread.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// Registers the table at `index`; where a state has been restored before, puts its contents back at once.  Throws
// Error(kRun) for anything but a table.
void register_object(lua_State* state, int index);

// Throws Error(kRun) where the state that was restored has more objects than are registered.
void check_registered(lua_State* state);

// What all of them hold, as a list in the form of plain_data.h.  Throws Error(kRun) where one holds what a state cannot
// keep, or the state that was restored has more.
std::string registered_text(lua_State* state);

// Takes the list of a state at the top of the stack, which is popped, and puts the contents back.
void restore_registered(lua_State* state);

}  // namespace runner::lua
