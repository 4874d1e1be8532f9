// Colours of texts for a terminal. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace runner {

enum class Color { kNone, kBold, kRed, kGreen, kYellow, kBlue, kBoldRed, kBoldGreen };

// Returns visible(text) in a colour: colour codes in `text` itself are escaped. Without a code if `enabled` is false,
// the colour is kNone or `text` is empty.
std::string painted(std::string_view text, Color color, bool enabled);

// Returns the length of a colour code of painted() at text[at]; 0 if there is none.
size_t color_bytes(std::string_view text, size_t at);

}  // namespace runner
