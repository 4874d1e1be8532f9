// The table that a hook file returns: the names in it, and whether what stands under them can be used.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runner/lua/runtime.h"
#include "runner/train/step/hooks.h"

namespace runner::lua {

// Told of each fault in an entry; `where`: unknown where it is in no function.
using ReportFault = std::function<void(const std::string& message, const SourceMark& where)>;

// All names: in the order of enum HookEntry, then of enum HookEvent; each ends with a NUL.
std::span<const std::string_view> hook_entries();

constexpr size_t place_of(train::HookEntry entry) {
  return static_cast<size_t>(entry);
}
constexpr size_t place_of(train::HookEvent event) {
  return train::kEntryCount + static_cast<size_t>(event);
}

// Checks the value at the top of the stack, which `file` has returned.  Throws schema::RecipeError with all that is
// wrong in it, each at its line as far as that can be told; where it is no table, Error(kRecipe).
void check_hook_table(lua_State* state, const Source& file);

}  // namespace runner::lua
