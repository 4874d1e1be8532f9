// Where a NaN or an infinity came from, or a weight that makes a loss NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backends/backend.h"
#include "runner/nn/parameter_set.h"
#include "schema/source_mark.h"

namespace runner::train {

struct NotFinite {
  enum class Source { kFeature, kTarget, kParameter, kComputed, kWeight };
  std::string what;  // "parameter 0.weight is inf"
  Source source = Source::kComputed;
  SourceMark where = {};  // the line of a hook that recorded it; unknown: none did
};

// A recorded forward pass: its nodes up to `end`, the last of which is the sum of the losses.
struct ForwardPass {
  const backends::Program& program;               // outputs do not matter
  std::span<const backends::ValueId> parameters;  // by ParameterId
  backends::ValueId features, labels;             // kNoValue: there is no batch
  backends::ValueId end;
  backends::ValueId weights = backends::kNoValue;  // (B) or () f32, of the losses
};

// Runs the pass once more with every value kept, or several times with as many as `memory` bytes beside the arrays have
// room for (none: all at once; a single value needs no more than the step did), and names the first that is not finite,
// or negative and a weight: a feature or target of a sample, a parameter, the weight of a sample, the result of an op,
// the sum of the losses. None: all are as they should be. `arguments`: those of the step that went wrong.  Compiles a
// Program; not for the steady state.
std::optional<NotFinite> first_not_finite(backends::Device& device, const ForwardPass& pass,
                                          const nn::ParameterSet& parameters, const backends::Arguments& arguments,
                                          std::optional<int64_t> memory);

// What a step that ends a run is told to have failed of, and what helps; `stepped`: an optimizer has changed something
// before it; `transformed`: the features have come through a hook's transform, and were finite before it.
std::string what_failed(const NotFinite& found, int64_t step, bool stepped, bool transformed);

}  // namespace runner::train
