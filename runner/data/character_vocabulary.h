// Vocabularies of characters: their texts in UTF-8, sorted. Thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {

// Returns the characters of both vocabularies.
inline std::vector<std::string> merge_characters(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::ranges::set_union(a, b, std::back_inserter(both));
  return both;
}

// Returns the ids in the vocabulary `now` of the characters of the vocabulary `before`. Throws Error(kData) naming
// `name` if one is not there.
inline std::vector<int32_t> ids_in(const std::vector<std::string>& before, const std::vector<std::string>& now,
                                   const std::string& name) {
  std::vector<int32_t> ids;
  for (const std::string& character : before) {
    const auto found = std::ranges::lower_bound(now, character);
    RUN_CHECK(found != now.end() && *found == character, ErrorKind::kData,
              "{}: unknown character {}: the model was not trained with it", name, in_quotes(character));
    ids.push_back(static_cast<int32_t>(found - now.begin()));
  }
  return ids;
}

}  // namespace runner::data
