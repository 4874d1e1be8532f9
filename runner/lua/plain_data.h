// Plain data of Lua as text and back: nil, booleans, numbers, texts, and tables of them, exactly.
//
// The text is a Lua expression with keys in a fixed order, so equal data give equal texts.
#pragma once

#include <string>

struct lua_State;

namespace runner::lua {

// What it is for, as messages say it: to be in a state, or to be sent to other processes.
enum class PlainUse { kState, kExchange };

// Throws Error(kRun) naming the place in the data ("best.model is a function"), which begins with `name`.  Its entries
// count against the budget of the call, the text may be as long as that has memory; in protected mode.
std::string plain_text(lua_State* state, int index, const std::string& name, PlainUse use = PlainUse::kState);

// Pushes what the text says.  Throws Error(kRun) where it is not such a text.
void push_plain(lua_State* state, const std::string& text);

}  // namespace runner::lua
