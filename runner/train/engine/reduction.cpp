#include "runner/train/engine/reduction.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "runner/train/step/digest.h"
#include "schema/base/packing.h"

namespace runner::train {

MetricSums merged(const MetricSums& mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  MetricSums all;
  for (const std::string& text : ranks.gather_objects(pack(mine), site)) add_to(all, unpack<MetricSums>(text));
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
  const std::vector<std::string> all = ranks->gather_objects(pack(mine), site);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    auto found = unpack<std::optional<NotFinite>>(all[rank]);
    if (!found) continue;
    found->what += fmt::format(" on rank {}", rank);
    return *found;
  }
  return {otherwise};
}

}  // namespace runner::train
