#include "runner/train/run/hub_folder.h"

#include <algorithm>
#include <deque>
#include <filesystem>

#include "runner/data/text.h"
#include "runner/data/token_rows.h"
#include "runner/formats/input_file.h"
#include "runner/formats/model_files.h"
#include "runner/model/hub_config.h"
#include "runner/model/model_def.h"
#include "runner/text/tokenizer_file.h"
#include "runner/train/run/checkpoint/model_metadata.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/exported_adapter.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::train {
namespace {

using backends::Shape;

constexpr int64_t kLongestTokenizer = int64_t{1} << 30;

// The tensors of a model as transformers expects them. Refers to the parameters.
class HubTensors {
 public:
  HubTensors(const nn::PretrainedDef& def, const std::vector<StoredParameter>& parameters) {
    for (const StoredParameter& parameter : parameters) {
      const bool is_turned = any_matches(def.conv1d, parameter.name);
      is_turned ? add_transposed(parameter) : add(parameter.name, parameter.shape, parameter.values);
    }
    for (const StoredParameter& parameter : parameters)
      if (any_matches(def.biased, parameter.name)) add_missing_bias(parameter, parameters);
  }

  std::vector<formats::NamedTensor> take() { return std::move(tensors_); }

 private:
  void add(const std::string& name, const Shape& shape, std::span<const std::byte> values) {
    tensors_.push_back({name, backends::DType::kF32, shape, values});
  }

  void add_transposed(const StoredParameter& parameter) {
    const int64_t rows = parameter.shape[0], columns = parameter.shape[1];
    std::vector<std::byte>& turned = made_.emplace_back(parameter.values.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        std::copy_n(parameter.values.begin() + (r * columns + c) * kSize, kSize,
                    turned.begin() + (c * rows + r) * kSize);
    add(parameter.name, {columns, rows}, turned);
  }

  // A model without biases computes the same as one with biases of zeros.
  void add_missing_bias(const StoredParameter& weight, const std::vector<StoredParameter>& parameters) {
    const std::string name = weight.name.substr(0, weight.name.rfind('.')) + ".bias";
    if (std::ranges::find(parameters, name, &StoredParameter::name) != parameters.end()) return;
    add(name, {weight.shape[0]}, made_.emplace_back(static_cast<size_t>(weight.shape[0] * kSize)));
  }

  static constexpr int64_t kSize = sizeof(float);

  std::vector<formats::NamedTensor> tensors_;
  std::deque<std::vector<std::byte>> made_;
};

class Folder {
 public:
  Folder(const std::string& path, const formats::WriteParts& write) : path_(path), write_(write) {
    formats::create_folder(path);
  }

  void write(const std::string& name, std::string_view contents, formats::FileKind kind) {
    result_.files.push_back(join_path(path_, name));
    const std::string_view parts[] = {contents};
    write_(result_.files.back(), parts, kind);
  }

  void write_weights(std::vector<formats::NamedTensor> tensors, int64_t most, const formats::Metadata& metadata) {
    const std::vector<std::string> files =
        formats::write_model(join_path(path_, "model.safetensors"), std::move(tensors), most, metadata, write_);
    result_.files.insert(result_.files.end(), files.begin(), files.end());
  }

  void write_tokenizer(const std::string& tokenizer) {
    if (tokenizer.empty()) {
      warn("the data have no tokenizer with files, so the folder has none");
      return;
    }
    try {
      for (const std::string& file : text::find_tokenizer(tokenizer).files)
        write(text::name_in_folder(file), formats::InputFile(file).read_rest(kLongestTokenizer),
              formats::FileKind::kText);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      warn("the folder has no tokenizer: " + error.message());
    }
  }

  HubFolder take() { return std::move(result_); }

 private:
  void warn(std::string text) { result_.warnings.push_back(std::move(text)); }

  const std::string path_;
  const formats::WriteParts& write_;
  HubFolder result_;
};

}  // namespace

HubFolder export_hub_folder(const ExportedModel& model, const schema::ReadResult& recipe, const std::string& folder,
                            int64_t max_shard_size, const formats::WriteParts& write) {
  const data::Encoding encoding = checkpoint_of(model.state).encoding;
  const std::string config = nn::hub_config_text(recipe, encoding);  // before anything is written
  const std::string tokenizer = data::tokenizer_path(recipe.recipe.data);
  if (encoding.texts && std::filesystem::exists(tokenizer))
    data::TextTokenizer({.tokenizer = tokenizer}, &*encoding.texts);  // throws if its files have changed
  const nn::PretrainedDef& def = nn::find_model(recipe.recipe.model.type)->pretrained();
  const MergedParameters merged(parameters_of(model.state, model.averaged),
                                recipe.recipe.model.lora.value_or(schema::Lora{}));
  Folder target(folder, write);
  target.write("config.json", config, formats::FileKind::kJson);
  target.write_weights(HubTensors(def, merged.parameters()).take(), max_shard_size, model_metadata(encoding, 1));
  target.write_tokenizer(tokenizer);
  return target.take();
}

}  // namespace runner::train
