// Matches the tensors of a pretrained model with the parameters of a model. Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/model/parameter_set.h"
#include "runner/model/pretrained_def.h"

namespace runner::formats {
struct NamedTensor;
}

namespace runner::nn {

struct PretrainedTensors {
  struct Match {
    std::string parameter;
    const formats::NamedTensor* tensor;
  };

  std::vector<Match> matches;       // sorted by parameter
  std::vector<std::string> unused;  // tensors without a parameter, by their names in the file
  std::vector<std::string> untied;  // copies of a shared parameter that differ from it, and are not used

  // Returns the tensor of a parameter, or null.
  const formats::NamedTensor* find(std::string_view parameter) const;
};

// The result refers to `tensors`, which are those of `file`. `has_new_outputs`: the parameters of the output layer get
// no tensor. Throws Error(kData) if two tensors are the same parameter.
PretrainedTensors match_tensors(const PretrainedDef& def, const std::string& file,
                                std::span<const formats::NamedTensor> tensors, const ParameterSet& parameters,
                                bool has_new_outputs);

}  // namespace runner::nn
