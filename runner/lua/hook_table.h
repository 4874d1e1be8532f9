// The table that a hook file returns: its entries and their validation.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runner/lua/runtime.h"
#include "runner/train/engine/hooks.h"

namespace runner::lua {

// Called for each fault in an entry. `where`: line of the fault, or unknown if it is not in a function.
using ReportFault = std::function<void(const std::string& message, const SourceMark& where)>;

// All entry names: first in the order of enum HookEntry, then of enum HookEvent. Each is NUL-terminated.
std::span<const std::string_view> hook_entries();

constexpr size_t place_of(train::HookEntry entry) {
  return static_cast<size_t>(entry);
}
constexpr size_t place_of(train::HookEvent event) {
  return train::kEntryCount + static_cast<size_t>(event);
}

// Checks the value at the top of the stack, which `file` returned. Throws schema::RecipeError with all faults and their
// lines as far as known, or Error(kRecipe) if the value is not a table.
void check_hook_table(lua_State* state, const Source& file);

}  // namespace runner::lua
