// Names that other programs use for keys and choices of a recipe, for hints. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace runner::schema {

struct OtherKey {
  std::string_view name;
  std::string_view key;        // the key here; empty if none does the same
  std::string_view hint = {};  // what to write, if the value of the key is another one
};
std::span<const OtherKey> other_keys();

// Returns the row of a key that another program calls `name`; null if none is known. Case and dashes do not matter.
const OtherKey* find_other_key(std::string_view name);

// Returns the hint of a row, or "write optimizer.lr".
std::string hint_of(const OtherKey& other);

// Returns the choice of the field `path` that another program calls `text`; empty if none is known.
std::string_view choice_of_other_name(std::string_view path, std::string_view text);

}  // namespace runner::schema
