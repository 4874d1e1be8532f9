#include "runner/train/reduction.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "runner/train/packing.h"

namespace runner::train {
namespace {

std::string packed(const MetricSums& sums) {
  std::string text;
  for (const auto& [name, sum] : sums) {
    append(text, name);
    append_number(text, sum.sum);
    append_number(text, sum.weight);
  }
  return text;
}

void add_packed(MetricSums& sums, std::string_view text) {
  while (!text.empty()) {
    MetricSum& total = sums[std::string(take(text))];
    const double sum = take_number(text), weight = take_number(text);
    total += {sum, weight};
  }
}

// "source line file\0what": neither a path nor `what` has a NUL.
std::string packed(const NotFinite& found) {
  return fmt::format("{} {} {}", static_cast<int>(found.source), found.where.line, found.where.file) + '\0' +
         found.what;
}

NotFinite unpacked(const std::string& text) {
  const size_t line = text.find(' ') + 1, file = text.find(' ', line) + 1, what = text.find('\0') + 1;
  return {text.substr(what),
          static_cast<NotFinite::Source>(std::stoi(text)),
          {text.substr(file, what - file - 1), std::stoi(text.substr(line)), 0}};
}

}  // namespace

MetricSums merged(const MetricSums& mine, backends::Collectives& ranks, const backends::Site& site) {
  MetricSums all;
  for (const std::string& text : ranks.gather_objects(packed(mine), site)) add_packed(all, text);
  return all;
}

uint64_t digest_of_all(uint64_t mine, backends::Collectives& ranks, const backends::Site& site) {
  std::vector<uint64_t> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather({backends::DType::kI64, {}}, std::as_bytes(std::span(&mine, 1)),
                   std::as_writable_bytes(std::span(all)), site);
  return std::accumulate(all.begin(), all.end(), uint64_t{0}, mixed);
}

NotFinite first_found(const std::optional<NotFinite>& mine, const std::string& otherwise, backends::Collectives* ranks,
                      const backends::Site& site) {
  if (ranks == nullptr) return mine.value_or(NotFinite{otherwise});
  for (const std::string& found : ranks->gather_objects(mine ? packed(*mine) : "", site))
    if (!found.empty()) return unpacked(found);
  return {otherwise};
}

}  // namespace runner::train
