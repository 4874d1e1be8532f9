// Strings of fixed capacity, without pointers, for shared memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

namespace runner::backends {

// Copies as much of the beginning of `text` as fits, zero-terminated.
template <size_t N>
void set_fixed_text(char (&target)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

// Copies as much of the end of `text` as fits, zero-terminated.
template <size_t N>
void set_end_of_text(char (&target)[N], std::string_view text) {
  set_fixed_text(target, text.substr(text.size() - std::min(text.size(), N - 1)));
}

}  // namespace runner::backends
