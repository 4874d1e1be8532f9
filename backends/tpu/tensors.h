// Which tensors the values of a Program are on a device.
//
// Our Programs keep parameters, gradients and moments in flat arrays, a TPU under PyTorch/XLA keeps each tensor by
// itself, padded by itself.  So every value in memory is a list of pieces of tensors: a view has those of its operand,
// a joined array (a concat of vectors) those of its parts, an element-wise result of flat arrays a tensor for each of
// theirs.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/ir/program.h"
#include "backends/plan/fusion.h"
#include "backends/tpu/tiling.h"

namespace runner::backends::tpu {

// What is asked about.  Refers to its program and groups.
struct DeviceProgram {
  const Program& program;            // as compiled: optimise(), then legalise()
  const std::vector<Group>& groups;  // make_groups(program)
  // By input, the tensors that it holds, one behind the other, with logical dtypes: the parameters of a flat buffer and
  // likewise for its gradients and slots.  An empty list, and inputs beyond the end: the input is one tensor.
  std::vector<std::vector<TensorType>> inputs;
  DeviceTypes types;  // by mixed_precision
};

// The order of axes of what is computed; arguments, and what takes their place, always have argument_layout().
enum class Ordering : uint8_t {
  kRowMajor,  // as our Programs have it, and as XLA's messages show the tensors that blow up
  kTightest,  // as if the compiler always found the better one: what a prediction is bounded by from below
};

struct DeviceTensor {
  TensorType type;  // on the device
  Layout layout;
  ValueId value;  // the first that it is a piece of: an input, or a result of `group`; its tensors are in a row
  int group;      // that writes it; −1: an argument

  int64_t unpadded() const { return static_cast<int64_t>(type.bytes()); }
};

struct Piece {
  int tensor;        // index of DeviceTensors::tensors
  int64_t elements;  // of it that the value has
  bool operator==(const Piece&) const = default;
};

struct DeviceTensors {
  std::vector<DeviceTensor> tensors;
  std::vector<std::vector<Piece>> pieces;  // by value; none where a value is in no memory
  std::vector<char> idle;                  // by group: it writes no tensor, but gives others another name

  // Are the pieces of a value these tensors, each whole?
  bool whole(ValueId value) const;
};

DeviceTensors trace_tensors(const DeviceProgram& device, Ordering ordering = Ordering::kRowMajor);

}  // namespace runner::backends::tpu
