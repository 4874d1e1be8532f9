// Names that other programs use for keys and choices of a recipe, for hints. Thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace runner::schema {

struct OtherKey {
  std::string_view name, hint;  // the hint names the key here, "that is optimizer.lr here", or another way
};
std::span<const OtherKey> other_keys();

// Returns the hint for a key that another program calls `name`: "that is optimizer.lr here"; empty if none is known.
// Case and dashes do not matter.
std::string_view hint_of_other_key(std::string_view name);

// Returns the choice of the field `path` that another program calls `text`; empty if none is known.
std::string_view choice_of_other_name(std::string_view path, std::string_view text);

}  // namespace runner::schema
