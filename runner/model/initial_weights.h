// Parameter values from safetensors files (model.init_from, model.pretrained, acc:load_model).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/model/parameter_set.h"
#include "runner/model/pretrained_def.h"
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
  std::string_view output_layer = {};        // pattern of its parameters (ModelDef::output_layer); empty: none
  bool has_new_outputs = false;              // model.new_head
};

// The weights of a folder of the Hub.
struct PretrainedSource {
  const PretrainedDef& def;
  std::string path;                       // model.pretrained
  bool has_new_outputs = false;           // model.new_head
  std::vector<std::string> classes = {};  // names of the model's outputs, for messages
};

// What became of the tensors of a file.
struct LoadReport {
  std::string key;  // of the recipe
  std::string file;
  size_t loaded = 0;
  std::vector<std::string> missing;  // parameters that are newly initialised
  std::vector<std::string> unused;   // tensors, by their names in the file
  std::vector<std::string> untied;   // copies of a shared parameter that differ from it, and are not used

  // Whether some tensors or parameters have no counterpart.
  bool has_news() const { return !missing.empty() || !unused.empty() || !untied.empty(); }
  std::string text() const;
};

class InitialWeights {
 public:
  InitialWeights();  // no file
  // Throws Error(kData) naming the file if a parameter or a buffer is missing or has another shape, if running
  // statistics are impossible (ModelBuffer::fault_in), if a tensor does not belong to the model, if a rename matches no
  // name, or if renames make two names equal. A count may be missing, as in PyTorch: files of old versions have none.
  // With new outputs, the file's output layer, if any, is not used.
  InitialWeights(const WeightSource& source, const ParameterSet& parameters);
  // Tensors must exist for all parameters outside the head (PretrainedDef::head); other tensors may be left over.
  // Throws Error(kData) or Error(kRecipe) naming the file.
  InitialWeights(const PretrainedSource& source, const ParameterSet& parameters);
  ~InitialWeights();
  InitialWeights(InitialWeights&&) noexcept;
  InitialWeights& operator=(InitialWeights&&) noexcept;

  // Writes the values of the elements from `begin` on, converted to f32. Returns false if there is no file, or none for
  // this parameter.
  bool read(const Parameter& parameter, std::span<float> values, int64_t begin = 0) const;
  // Returns the contents of a buffer: those in the file, converted to its type, else its initial value.
  std::vector<std::byte> contents_of(const ModelBuffer& buffer) const;
  // Returns a digest of the values of all parameters, as they are in the file.
  Sha256Digest digest() const;
  // Null without a file.
  const LoadReport* report() const { return report_ ? &*report_ : nullptr; }

 private:
  struct Entry {
    std::string name;  // in the model
    const formats::NamedTensor* tensor;
    bool is_transposed = false;  // the file has (in, out) instead of (out, in)
  };

  // A tensor of the model in a WeightSource.
  struct Expected {
    const std::string& name;
    const backends::Shape& shape;
    bool is_count = false;
  };
  void check(const WeightSource& source, const Expected& expected) const;
  void check(const WeightSource& source, const ModelBuffer& buffer) const;
  void leave_out_outputs(const WeightSource& source);
  void rename(const WeightSource& source);
  const Entry* find(std::string_view name) const;
  std::string names_text() const;  // of the tensors after the renames so far, for messages
  std::string prefix_hint(const WeightSource& source, const std::string& parameter) const;

  std::unique_ptr<formats::ModelTensors> file_;
  std::vector<Entry> entries_;  // sorted by name
  std::optional<LoadReport> report_;
};

// Makes a model without the files that it starts from, for weights from a checkpoint.
inline void read_no_weights(schema::ModelSpec& model) {
  model.init_from.clear();
  model.pretrained.clear();
}

}  // namespace runner::nn
