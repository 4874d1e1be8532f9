// Initial parameter values from a safetensors file (model.init_from).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runner/model/parameter_set.h"

namespace runner::formats {
class SafetensorsFile;
}

namespace runner::nn {

class InitialWeights {
 public:
  // `path`: empty for none. Throws Error(kData) naming the file if a parameter is missing or has another shape, or if a
  // tensor does not belong to the model.
  InitialWeights(const std::string& path, const ParameterSet& parameters);
  ~InitialWeights();

  // Writes the values of the elements from `begin` on, converted to f32. Returns false if there is no file.
  bool read(const Parameter& parameter, std::span<float> values, int64_t begin = 0) const;

 private:
  std::unique_ptr<formats::SafetensorsFile> file_;
};

}  // namespace runner::nn
