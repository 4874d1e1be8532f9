// Parameter values from safetensors files (model.init_from, acc:load_model).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runner/model/parameter_set.h"
#include "schema/base/sha256.h"
#include "schema/recipe/recipe.h"

namespace runner::formats {
class ModelTensors;
struct NamedTensor;
}  // namespace runner::formats

namespace runner::nn {

// Where the values of a model come from.
struct WeightSource {
  std::string path;                          // a safetensors file, or the index of its shards (formats::ModelTensors)
  std::vector<schema::Rename> renames = {};  // of the names in the file, applied one after the other
  bool is_of_hook = false;                   // acc:load_model instead of model.init_from and model.rename, for errors
  std::string root = {};                     // folder that contains all files, links resolved; empty: any folder
};

class InitialWeights {
 public:
  InitialWeights();  // no file
  // Throws Error(kData) naming the file if a parameter is missing or has another shape, if a tensor does not belong to
  // the model, if a rename matches no name, or if renames make two names equal.
  InitialWeights(const WeightSource& source, const ParameterSet& parameters);
  ~InitialWeights();
  InitialWeights(InitialWeights&&) noexcept;
  InitialWeights& operator=(InitialWeights&&) noexcept;

  // Writes the values of the elements from `begin` on, converted to f32. Returns false if there is no file.
  bool read(const Parameter& parameter, std::span<float> values, int64_t begin = 0) const;
  // Returns a digest of the values of all parameters, as they are in the file.
  Sha256Digest digest() const;

 private:
  struct Entry {
    std::string name;  // in the model
    const formats::NamedTensor* tensor;
  };

  void rename(const WeightSource& source);
  const formats::NamedTensor* find(std::string_view name) const;
  std::string names_text() const;  // of the tensors after the renames so far, for messages
  std::string prefix_hint(const WeightSource& source, const std::string& parameter) const;

  std::unique_ptr<formats::ModelTensors> file_;
  std::vector<Entry> entries_;  // sorted by name
};

}  // namespace runner::nn
