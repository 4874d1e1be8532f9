// Digests for comparing what ranks do. Equal words give equal digests in every process.
#pragma once

#include <cstdint>

namespace runner::train {

// Returns `digest` extended by one word.
inline uint64_t mixed(uint64_t digest, uint64_t word) {
  digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
  return digest ^ (digest >> 29);
}

}  // namespace runner::train
