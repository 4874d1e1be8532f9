// What to change where memory is short, as errors of devices say it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace runner::backends {

struct Advice {
  std::string text;    // "halve the batch size, 64 to 32"
  int64_t saving = 0;  // bytes of what the device needs, predicted
  bool suffices = false;
};

// The first of `all`, of which there is one at least, that suffices; the one that saves most if none does.
inline Advice first_that_suffices(std::span<const Advice> all) {
  for (const Advice& advice : all)
    if (advice.suffices) return advice;
  return *std::ranges::max_element(all, {}, &Advice::saving);
}

}  // namespace runner::backends
