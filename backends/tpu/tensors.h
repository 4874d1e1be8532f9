// Maps the values of a Program to the tensors that a device stores.
//
// Our Programs keep parameters, gradients and moments in flat arrays; a TPU under PyTorch/XLA keeps each tensor
// separate and padded. So every value in memory is a list of pieces of tensors. A view has the pieces of its operand, a
// concat of vectors those of its parts, and an element-wise result of flat arrays one tensor for each of their tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/exec/fusion.h"
#include "backends/ir/program.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// A Program to analyse. Refers to `program` and `groups`, which must outlive it.
struct DeviceProgram {
  const Program& program;            // as compiled: optimise(), then legalise()
  const std::vector<Group>& groups;  // make_groups(program)
  // By input: the tensors stored in it, in order, with logical dtypes; flat buffers of parameters, gradients and slots
  // have several. If the list is empty or missing, the input is one tensor.
  std::vector<std::vector<TensorType>> inputs;
  DeviceTypes types;  // depends on mixed_precision
};

struct DeviceTensor {
  TensorType type;  // on the device
  Layout layout;
  // First value it is a piece of: an input or a result of `group`. Tensors of a value have consecutive indices.
  ValueId value;
  int group;  // group that writes it; −1: an argument

  int64_t unpadded() const { return static_cast<int64_t>(type.bytes()); }
};

struct Piece {
  int tensor;        // index into DeviceTensors::tensors
  int64_t elements;  // elements of the tensor that belong to the value
  bool operator==(const Piece&) const = default;
};

struct DeviceTensors {
  std::vector<DeviceTensor> tensors;
  std::vector<std::vector<Piece>> pieces;  // by value; empty if the value is not in memory
  std::vector<char> idle;                  // by group: writes no tensor, only renames others

  // Whether all pieces of a value are whole tensors.
  bool whole(ValueId value) const;
};

// Computed tensors are row-major, as in our Programs and in XLA's messages about excessive padding. Arguments, and
// results stored in their place, have argument_layout().
DeviceTensors trace_tensors(const DeviceProgram& device);

}  // namespace runner::backends::tpu
