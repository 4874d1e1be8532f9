// Exact conversion of plain Lua data to text and back: nil, booleans, numbers, strings, and tables of them.
//
// The text is a Lua expression with sorted keys, so equal data give equal texts.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// Purpose of the data, for messages: stored in a checkpoint, or sent to other processes.
enum class PlainUse { kState, kExchange };

// Returns the value at `index` as text. `name`: prefix of the path in messages. Entries are charged to the budget of
// the call, and the text is limited by its memory budget. Call in protected mode. Throws Error(kRun) with the path of a
// value that is not plain ("best.model is a function").
std::string plain_text(lua_State* state, int index, const std::string& name, PlainUse use = PlainUse::kState);

// Pushes the data in `text`. Throws Error(kRun) if it is not such a text.
void push_plain(lua_State* state, const std::string& text);

}  // namespace runner::lua
