#include "runner/train/engine/reduction.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "runner/train/step/digest.h"
#include "runner/train/step/packing.h"

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

std::string packed(const NotFinite& found) {
  std::string text;
  append_number(text, static_cast<double>(found.source));
  append_number(text, found.where.line);
  append(text, found.where.file);
  append(text, found.what);
  return text;
}

NotFinite unpacked_search(std::string_view text) {
  NotFinite found;
  found.source = static_cast<NotFinite::Source>(take_number(text));
  found.where.line = static_cast<int>(take_number(text));
  found.where.file = take(text);
  found.what = take(text);
  return found;
}

}  // namespace

MetricSums merged(const MetricSums& mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  MetricSums all;
  for (const std::string& text : ranks.gather_objects(packed(mine), site)) add_packed(all, text);
  return all;
}

uint64_t digest_of_all(uint64_t mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  std::vector<uint64_t> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather({backends::DType::kI64, {}}, std::as_bytes(std::span(&mine, 1)),
                   std::as_writable_bytes(std::span(all)), site);
  return std::accumulate(all.begin(), all.end(), uint64_t{0}, mixed);
}

NotFinite first_found(const std::optional<NotFinite>& mine, const std::string& otherwise, backends::ProcessGroup* ranks,
                      const backends::Site& site) {
  if (ranks == nullptr) return mine.value_or(NotFinite{otherwise});
  const std::vector<std::string> all = ranks->gather_objects(mine ? packed(*mine) : "", site);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    NotFinite found = unpacked_search(all[rank]);
    found.what += fmt::format(" on rank {}", rank);
    return found;
  }
  return {otherwise};
}

}  // namespace runner::train
