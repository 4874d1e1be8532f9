// Which numbers a device has already: PyTorch/XLA uploads each as a tensor, and keeps the newest of them.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "backends/tpu/metrics.h"
#include "backends/tpu/scalar_signature.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

class DeviceDataCache {
 public:
  DeviceDataCache(const ScalarRules& rules, const DeviceTypes& types) : rules_(rules), types_(types) {}

  // The numbers of a graph that is about to run: those that are parameters of it and not there yet are uploaded.
  void upload(std::span<const TracedScalar> scalars, const ScalarSignature& signature, DeviceMetrics& metrics);

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
