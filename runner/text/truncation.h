// Cuts texts of too many tokens. Thread-safe.
#pragma once

#include <cstddef>

namespace runner::text {

enum class Truncation { kLongestFirst, kOnlyFirst, kOnlySecond };

struct TextLengths {
  size_t first = 0, second = 0;
  friend bool operator==(const TextLengths&, const TextLengths&) = default;
};

// Returns how many tokens of each text remain, so that they are `most` together. kLongestFirst keeps all of a text that
// has at most half of them; of two longer ones, the second gets the odd token. Throws Error(kData) if the text to be
// cut is too short for it: it keeps at least one token. Source: truncate_encodings() of Hugging Face's tokenizers.
TextLengths truncated(TextLengths lengths, size_t most, Truncation truncation);

}  // namespace runner::text
