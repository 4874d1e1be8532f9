// The weights as products read them, where a device rounds the operands of its products to bf16: one copy that all
// replicas have together, in which each rounds the share that it has updated.  Without it each replica would round all
// of them, in each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "backends/collectives/collectives.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/shares.h"

namespace runner::train {

class RoundedWeights {
 public:
  // Called by all replicas together; zeros, as the weights are then.  `window_states`: SharedArrays::window.
  RoundedWeights(const DeviceLayout& layout, const Shares& shares, backends::Device& device,
                 backends::Collectives& ranks, std::span<backends::Buffer* const> window_states);

  // Declares them as the last inputs of a step.
  static void declare(const DeviceLayout& layout, backends::Program& step);
  // In the order in which they are declared.
  std::span<const std::shared_ptr<backends::Buffer>> states() const { return copies_; }

  // So much has been written to an array of the layout, from byte `offset` on, and the device is not at work.  On a TPU
  // weights are rounded where they are used: this is no transfer to the device.
  void write(int32_t array, size_t offset, std::span<const std::byte> contents);
  // This replica has updated its share; before others read it.  What the update has returned can still be read.
  void round_share();

 private:
  std::vector<std::shared_ptr<backends::Buffer>> copies_, shares_;
  std::vector<int32_t> copy_of_array_;  // by array of the layout: index into copies_; −1: it holds no weights
  std::vector<backends::Buffer*> rounded_states_;  // of the rounding: the share of each buffer, and of its copy
  // Apart from the device of the steps, whose newest outputs stay.
  const std::unique_ptr<backends::Device> host_;
  std::shared_ptr<backends::Executable> rounding_;
};

}  // namespace runner::train
