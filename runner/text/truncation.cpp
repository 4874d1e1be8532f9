#include "runner/text/truncation.h"

#include <algorithm>

#include "schema/base/error.h"

namespace runner::text {
namespace {

TextLengths truncated_longest_first(TextLengths lengths, size_t most) {
  const bool is_first_longer = lengths.first > lengths.second;
  size_t shorter = std::min(lengths.first, lengths.second);
  if (shorter > most / 2) shorter = most / 2;
  const size_t longer = most - shorter;
  return is_first_longer ? TextLengths{longer, shorter} : TextLengths{shorter, longer};
}

}  // namespace

TextLengths truncated(TextLengths lengths, size_t most, Truncation truncation) {
  const size_t all = lengths.first + lengths.second;
  if (all <= most) return lengths;
  if (most == 0) return {};
  if (truncation == Truncation::kLongestFirst) return truncated_longest_first(lengths, most);
  const bool is_first = truncation == Truncation::kOnlyFirst;
  size_t& cut = is_first ? lengths.first : lengths.second;
  const size_t excess = all - most;
  RUN_CHECK(cut > excess, ErrorKind::kData,
            "truncation {}: the {} text has {} tokens, but {} are too many for {}; use longest_first or a larger "
            "max_length",
            is_first ? "only_first" : "only_second", is_first ? "first" : "second", cut, excess, most);
  cut -= excess;
  return lengths;
}

}  // namespace runner::text
