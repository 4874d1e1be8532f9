#include "schema/base/suggest.h"

#include <algorithm>

#include "schema/base/text.h"

namespace runner::schema {

int edit_distance(std::string_view a, std::string_view b) {
  // Rows of the table of distances between prefixes, for a[0, i - 2), a[0, i - 1) and a[0, i).
  std::vector<int> older(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) current[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(older, previous);
    std::swap(previous, current);
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substituted = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], older[j - 2] + 1);
      }
    }
  }
  return current[b.size()];
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr size_t kLongestName = 64;  // a longer name is not a misspelling, and the table would be large
  std::vector<std::string> names;
  if (name.size() > kLongestName) return names;
  int best = std::max(1, static_cast<int>(name.size()) / 3);
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(lower_case(name), lower_case(candidate));
    if (distance > best) continue;
    if (distance < best) names.clear();
    best = distance;
    if (std::find(names.begin(), names.end(), candidate) == names.end()) names.push_back(candidate);
  }
  return names;
}

std::string join_or(std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

std::string did_you_mean(std::span<const std::string> names) {
  return names.empty() ? "" : "did you mean " + join_or(names) + "?";
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates, std::string_view otherwise) {
  const std::vector<std::string> near = nearest(name, candidates);
  return near.empty() ? std::string(otherwise) : did_you_mean(near);
}

}  // namespace runner::schema
