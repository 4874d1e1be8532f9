// Finds the origin of a NaN, an infinity, or a weight that makes a loss NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "backends/device_model/modelled_device.h"
#include "runner/model/parameter_set.h"
#include "schema/base/source_mark.h"

namespace runner::train {

struct NotFinite {
  enum class Source { kFeature, kTarget, kParameter, kComputed, kWeight };
  std::string what;  // "parameter 0.weight is inf"
  Source source = Source::kComputed;
  SourceMark where = {};  // hook line that recorded the value; unknown if none did

  static auto parts(auto& self) { return std::tie(self.what, self.source, self.where); }
};

// A recorded forward pass: its nodes up to `end`. The last one is the sum of the losses.
struct ForwardPass {
  const backends::Program& program;               // its outputs are ignored
  std::span<const backends::ValueId> parameters;  // by ParameterId
  backends::ValueId features, labels;             // kNoValue if there is no batch
  size_t sample_ids;                              // position in Submission::batch
  backends::ValueId end;
  backends::ValueId weights = backends::kNoValue;  // (B) or () f32, weights of the losses
};

// Reruns the pass and keeps every value, to find the first that is not finite, or is a negative weight: a feature or
// target of a sample, a parameter, the weight of a sample, the result of an op, or the sum of the losses. Returns none
// if all are valid. `memory`: bytes that may be used in addition to the arrays (none: no limit). If all values do not
// fit, runs several times with as many as do; a single value needs no more memory than the step did. `submission`:
// those of the failed step. Compiles Programs, so use it only after an error.
std::optional<NotFinite> first_not_finite(backends::ModelledDevice& device, const ForwardPass& pass,
                                          const nn::ParameterSet& parameters, const backends::Submission& submission,
                                          std::optional<int64_t> memory);

// Error message for a step that ends the run, with advice. `stepped`: an optimizer has updated parameters before it;
// `transformed`: the features passed a hook's transform and were finite before it.
std::string what_failed(const NotFinite& found, int64_t step, bool stepped, bool transformed);

}  // namespace runner::train
