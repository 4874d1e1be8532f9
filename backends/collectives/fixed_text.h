// Texts in memory that processes share: without pointers, and of at most so many characters.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

namespace runner::backends {

// Puts the beginning of `text`, as much as fits, and a zero behind it into `target`.
template <size_t N>
void set_fixed_text(char (&target)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

// The same for its end.
template <size_t N>
void set_end_of_text(char (&target)[N], std::string_view text) {
  set_fixed_text(target, text.substr(text.size() - std::min(text.size(), N - 1)));
}

}  // namespace runner::backends
