// Suggestions for misspelt names. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace runner::schema {

// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (optimal
// string alignment distance).
int edit_distance(std::string_view a, std::string_view b);

// Returns the candidates nearest to `name`, all at the same edit distance, ignoring case. The distance is at most a
// third of the length of `name`, but at least 1. Keeps the order, without duplicates; empty if no candidate is near.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

// "did you mean a, b or c?"; empty for no names.
std::string did_you_mean(std::span<const std::string> names);

// As above for the candidates nearest to `name`; `otherwise` if none is near.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates, std::string_view otherwise);

// "a", "a or b", "a, b or c".
std::string join_or(std::span<const std::string> names);

}  // namespace runner::schema
