// Boards of TPU hosts.
#pragma once

#include <string_view>

namespace runner::schema {

// Returns the number of devices on the board of one host: 8 for a v3-8. `generation`: as in tpu.generation.
constexpr int devices_on_board(std::string_view generation) {
  return generation == "v4" || generation == "v5p" ? 4 : 8;
}

}  // namespace runner::schema
