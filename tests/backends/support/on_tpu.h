// A Program as prepared for a TPU: optimised, legalised, grouped.
#pragma once

#include <utility>
#include <vector>

#include "backends/exec/fusion.h"
#include "backends/ir/passes/passes.h"
#include "backends/tpu/tensors.h"

namespace runner::backends::tpu::testing {

class OnTpu {
 public:
  explicit OnTpu(const Program& recorded, std::vector<std::vector<TensorType>> inputs = {}, DeviceTypes types = {})
      : program_(legalise(optimise(recorded))),
        groups_(make_groups(program_)),
        device_{program_, groups_, std::move(inputs), types} {}
  OnTpu(const OnTpu&) = delete;
  OnTpu& operator=(const OnTpu&) = delete;

  const Program& program() const { return program_; }
  const std::vector<Group>& groups() const { return groups_; }
  const DeviceProgram& device() const { return device_; }

 private:
  Program program_;
  std::vector<Group> groups_;
  DeviceProgram device_;
};

}  // namespace runner::backends::tpu::testing
