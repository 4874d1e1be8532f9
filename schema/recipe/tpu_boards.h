// The boards of TPU hosts.
#pragma once

#include <string_view>

namespace runner::schema {

// Replicas that one host's board of a generation takes at most: 8 on a v3-8.  `generation`: as in tpu.generation.
constexpr int devices_on_board(std::string_view generation) {
  return generation == "v4" || generation == "v5p" ? 4 : 8;
}

}  // namespace runner::schema
