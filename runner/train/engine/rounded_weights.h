// A bf16 copy of the weights, for devices that round the operands of matrix products to bf16. All ranks share one copy,
// in which each rank rounds the shard that it has updated. Without it, each rank would round all weights in every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/shard.h"

namespace runner::train {

class RoundedWeights {
 public:
  // Collective. The copy is zero at first, like the weights. `reduction_states`: SharedArrays::reduction.
  RoundedWeights(const DeviceLayout& layout, const Shard& shard, backends::Device& device,
                 backends::ProcessGroup& ranks, std::span<backends::Buffer* const> reduction_states);

  // Declares the copies as the last inputs of a step.
  static void declare(const DeviceLayout& layout, backends::Program& step);
  // In the order of their declaration.
  std::span<const std::shared_ptr<backends::Buffer>> states() const { return copies_; }

  // Call after writing `contents` to an array of the layout at byte `offset`. The device must be idle. A TPU rounds
  // weights where they are used, so this does not count as a transfer to the device.
  void write(int32_t array, size_t offset, std::span<const std::byte> contents);
  // Rounds the shard that this rank has updated. Call before other ranks read it. The outputs of the update remain
  // readable.
  void round_shard();

 private:
  std::vector<std::shared_ptr<backends::Buffer>> copies_, shard_;
  std::vector<int32_t> copy_of_array_;  // by array of the layout: index into copies_; −1 if it contains no weights
  // States of the rounding Program: for each buffer its shard, then the shard of its copy.
  std::vector<backends::Buffer*> rounded_states_;
  // A device of its own, so that the outputs of the step's device remain.
  const std::unique_ptr<backends::Device> host_;
  std::shared_ptr<backends::Executable> rounding_;
};

}  // namespace runner::train
