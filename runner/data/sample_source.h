// Features of samples that are computed or decoded when they are read, instead of being kept as an array in a Storage.
//
// Constant after loading. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>

#include "schema/base/sha256.h"

namespace runner::data {

// Of the bytes of a channel of an image.
struct ChannelSums {
  int64_t bytes = 0, squares = 0;

  static auto parts(auto& self) { return std::tie(self.bytes, self.squares); }
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Writes the features of a row before augmentation and normalisation. `out`: (elements of the feature shape).
  virtual void read(int64_t row, std::span<float> out) const = 0;
  // Updates `hash` with what the features of `rows` depend on. `rows`: ascending; empty: all.
  virtual void hash(std::span<const int32_t> rows, Sha256& hash) const = 0;
  // Returns the sums of each channel of a row whose features are byte / 255; empty if reading the row is as cheap.
  virtual std::span<const ChannelSums> channel_sums(int64_t /*row*/) const { return {}; }
};

}  // namespace runner::data
