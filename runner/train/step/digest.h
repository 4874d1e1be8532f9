// Digests of what replicas do: those of equal words are equal, whichever the process.
#pragma once

#include <cstdint>

namespace runner::train {

// A digest that has taken in one word more.
inline uint64_t mixed(uint64_t digest, uint64_t word) {
  digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
  return digest ^ (digest >> 29);
}

}  // namespace runner::train
