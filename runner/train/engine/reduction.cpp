#include "runner/train/engine/reduction.h"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "runner/train/step/digest.h"
#include "runner/train/step/gathering.h"

namespace runner::train {

MetricSums merged(const MetricSums& mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  MetricSums all;
  for (const MetricSums& sums : gather_values(mine, ranks, site)) add_to(all, sums);
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
  std::vector<std::optional<NotFinite>> all = gather_values(mine, *ranks, site);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank]) continue;
    all[rank]->what += fmt::format(" on rank {}", rank);
    return *all[rank];
  }
  return {otherwise};
}

}  // namespace runner::train
