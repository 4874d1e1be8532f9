#include "runner/train/reduction.h"

#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace runner::train {
namespace {

constexpr size_t kNumbers = 2 * sizeof(double);  // a sum and a weight

// Each metric as its two numbers, its name, and a zero.
std::string packed(const MetricSums& sums) {
  std::string text;
  for (const auto& [name, sum] : sums) {
    char numbers[kNumbers];
    std::memcpy(numbers, &sum.sum, sizeof(double));
    std::memcpy(numbers + sizeof(double), &sum.weight, sizeof(double));
    text.append(numbers, kNumbers).append(name).push_back('\0');
  }
  return text;
}

void add_packed(MetricSums& sums, std::string_view text) {
  while (!text.empty()) {
    double numbers[2];
    std::memcpy(numbers, text.data(), kNumbers);
    const std::string name(text.data() + kNumbers);
    sums[name].sum += numbers[0];
    sums[name].weight += numbers[1];
    text.remove_prefix(kNumbers + name.size() + 1);
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
    window.batch_digest = (window.batch_digest ^ share.digest) * 0x9e3779b97f4a7c15u;
    window.batch_digest ^= window.batch_digest >> 29;
  }
}

}  // namespace runner::train
