// The names nearest to a misspelt one.  Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::schema {

// The number of insertions, deletions, substitutions and swaps of neighbours that turn a into b (optimal string
// alignment).
int edit_distance(std::string_view a, std::string_view b);

// The candidates nearest to `name`, all at the same distance: at most one third of its length, at least 1, capital
// letters counting as small ones.  In the order given, without repeats; empty if none is near.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// "did you mean a, b or c?"; empty for no names.
std::string did_you_mean(std::span<const std::string> names);

// The same for the candidates nearest to `name`; `otherwise` where none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates, std::string_view otherwise);

// "a", "a or b", "a, b or c".
std::string join_or(std::span<const std::string> names);

}  // namespace runner::schema
