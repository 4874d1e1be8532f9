// Formats ranks for messages.
#pragma once

#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace runner::train {

// "rank 2", "ranks 0, 1, 3".
inline std::string rank_list(std::span<const size_t> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace runner::train
