#include "runner/train/reduction.h"

#include <vector>

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

struct Share {
  int64_t samples;
  uint64_t digest;
};

}  // namespace

MetricSums merged(const MetricSums& mine, backends::Collectives& ranks, const backends::Site& site) {
  MetricSums all;
  for (const std::string& text : ranks.gather_objects(packed(mine), site)) add_packed(all, text);
  return all;
}

void merge(Trainer::Window& window, backends::Collectives& ranks, const backends::Site& site) {
  const Share mine{window.samples, window.batch_digest};
  std::vector<Share> all(static_cast<size_t>(ranks.size()));
  constexpr int64_t kWords = sizeof(Share) / sizeof(int64_t);
  ranks.all_gather({backends::DType::kI64, backends::Shape{kWords}}, std::as_bytes(std::span(&mine, 1)),
                   std::as_writable_bytes(std::span(all)), site);
  window.samples = 0;
  window.batch_digest = 0;
  for (const Share& share : all) {
    window.samples += share.samples;
    window.mix(share.digest);
  }
}

}  // namespace runner::train
