// Writes a forward Program as an ONNX model: opset 17, IR version 8 (onnx.proto of the ONNX project).
//
// A Program has a batch of one size; the model accepts any. Two Programs of the same model with different batch sizes
// show which sizes grow with the batch. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/program.h"

namespace runner::formats {

// Parameter of the model, which the file contains. Its tensor in the file is f32.
struct OnnxWeight {
  backends::ValueId value;  // in both Programs
  std::string name;
  backends::Shape shape;
  std::span<const std::byte> bytes;
};

// The features that the model gets are (x · scale − center) / spread of the input x. Empty lists: 0 and 1.
struct OnnxScaling {
  double scale = 1;
  std::vector<double> center, spread;  // per feature, or per channel of features (C, H, W) or (H, W)
};

// A Program with one output, recorded for a batch of `samples`.
struct OnnxRecording {
  const backends::Program& program;
  int64_t samples;
};

struct OnnxExport {
  OnnxRecording first, second;  // of the same model, with different batch sizes
  std::vector<OnnxWeight> weights;
  std::vector<std::string> inputs;          // names of inputs of the Programs that the file may have
  std::string output;                       // its name in the file
  std::optional<OnnxScaling> scaling = {};  // of the input "features"
  std::map<std::string, std::string> metadata;
};

// Returns the bytes of the file. Throws Error(kUsage) if the model computes something that ONNX does not have, needs
// more of a batch than the inputs of the model, or depends on the batch size; and if the file would exceed 2 GB, the
// most that Protocol Buffers can hold.
std::string onnx_model(const OnnxExport& model);

}  // namespace runner::formats
