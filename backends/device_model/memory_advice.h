// Advice on what to change if a device runs out of memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace runner::backends {

struct Advice {
  std::string text;    // "halve the batch size, from 64 to 32"
  int64_t saving = 0;  // predicted saving of device memory in bytes
  bool suffices = false;
};

// Returns the first advice that suffices, or the one that saves most if none does. `all`: not empty.
inline Advice first_that_suffices(std::span<const Advice> all) {
  for (const Advice& advice : all)
    if (advice.suffices) return advice;
  return *std::ranges::max_element(all, {}, &Advice::saving);
}

}  // namespace runner::backends
