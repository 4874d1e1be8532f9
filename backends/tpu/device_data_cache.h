// Cache of the scalars that are already on the device. PyTorch/XLA uploads each distinct scalar as a tensor and keeps
// the most recently used ones.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "backends/tpu/metrics.h"
#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

class DeviceDataCache {
 public:
  DeviceDataCache(const ScalarRules& rules, const DeviceTypes& types) : rules_(rules), types_(types) {}

  // Records the upload of a traced scalar in `metrics`, whether or not a graph uses it. Only parameters
  // (is_parameter()) that are not in the cache are uploaded.
  void upload(const TracedScalar& scalar, MetricsRegistry& metrics);

 private:
  struct Number {
    DType dtype;
    int64_t bits;
    bool operator==(const Number&) const = default;
  };
  // Returns whether the number was not in the cache.
  bool add(const Number& number);

  const ScalarRules rules_;
  const DeviceTypes types_;
  std::deque<Number> numbers_;  // most recently used first
};

}  // namespace runner::backends::tpu
