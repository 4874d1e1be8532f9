#include "backends/tpu/device_data_cache.h"

#include <algorithm>

namespace runner::backends::tpu {
namespace {

constexpr size_t kMaxNumbers = 128;  // XLA_DEVDATA_CACHE_SIZE

}  // namespace

bool DeviceDataCache::add(const Number& number) {
  const auto found = std::ranges::find(numbers_, number);
  const bool is_new = found == numbers_.end();
  if (!is_new) numbers_.erase(found);
  numbers_.push_front(number);
  if (numbers_.size() > kMaxNumbers) numbers_.pop_back();
  return is_new;
}

void DeviceDataCache::upload(const TracedScalar& scalar, MetricsRegistry& metrics) {
  if (!is_parameter(scalar, rules_)) return;
  const UploadedNumber number = as_uploaded(scalar, rules_);
  if (!add({number.dtype, pack_f64(number.value + 0.0)})) return;
  metrics.count(XlaCounter::kDeviceDataCacheMiss);
  metrics.add(XlaMetric::kOutboundData, static_cast<int64_t>(size_of(types_.of(number.dtype))));
}

}  // namespace runner::backends::tpu
