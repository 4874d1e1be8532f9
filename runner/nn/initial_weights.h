// model.init_from: parameters read from a safetensors file.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runner/nn/parameter_set.h"

namespace runner::formats {
class SafetensorsFile;
}

namespace runner::nn {

class InitialWeights {
 public:
  // An empty path: none.  Throws Error(kData) naming the file and the first parameter that it lacks or has in another
  // shape, or a tensor that the model does not have.
  InitialWeights(const std::string& path, const ParameterSet& parameters);
  ~InitialWeights();

  // Writes the file's values, converted to f32, of the elements from number `begin` on; false without a file.
  bool read(const Parameter& parameter, std::span<float> values, int64_t begin = 0) const;

 private:
  std::unique_ptr<formats::SafetensorsFile> file_;
};

}  // namespace runner::nn
