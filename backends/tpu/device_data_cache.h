// Which numbers a device has already: PyTorch/XLA uploads each as a tensor, and keeps the newest of them.
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

  // A number that was traced, also where no graph takes it: a parameter that is not there yet is uploaded.
  void upload(const TracedScalar& scalar, DeviceMetrics& metrics);

 private:
  struct Number {
    DType dtype;
    int64_t bits;
    bool operator==(const Number&) const = default;
  };
  // Whether it is new.
  bool add(const Number& number);

  const ScalarRules rules_;
  const DeviceTypes types_;
  std::deque<Number> numbers_;  // the one used last comes first
};

}  // namespace runner::backends::tpu
