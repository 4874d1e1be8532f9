#include "runner/model/pretrained_folder.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "runner/formats/input_file.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/text.h"

namespace runner::nn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolderKey = "model.pretrained";
constexpr std::string_view kWeights = "model.safetensors", kIndex = "model.safetensors.index.json";
constexpr int64_t kLongestConfig = 16'000'000;

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A file that Git LFS has not fetched is a text of three lines.
void check_fetched(const std::string& path) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  std::array<char, kPointer.size()> start{};
  std::ifstream(path, std::ios::binary).read(start.data(), std::ssize(start));
  RUN_CHECK(std::string_view(start.data(), start.size()) != kPointer, ErrorKind::kData,
            "{}: {} is a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`", kFolderKey, path);
}

// Says which weights a folder has instead of safetensors.
std::string other_weights(const std::string& folder) {
  constexpr const char* kOthers[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                                     "flax_model.msgpack"};
  for (const char* other : kOthers)
    if (exists(join_path(folder, other)))
      return fmt::format(
          ", but {0}; convert it: python -c 'from transformers import AutoModelForPreTraining as M; "
          "M.from_pretrained(\"{1}\").save_pretrained(\"{1}\")'",
          other, folder);
  return "; expected a folder of the Hugging Face Hub";
}

}  // namespace

PretrainedFiles find_pretrained(const std::string& path) {
  std::error_code ignored;
  RUN_CHECK(exists(path), ErrorKind::kData, "{}: {} does not exist", kFolderKey, path);
  PretrainedFiles files;
  const bool is_folder = fs::is_directory(path, ignored);
  const std::string folder = is_folder ? path : folder_of(path);
  if (is_folder) {
    files.weights = join_path(folder, std::string(kWeights));
    if (!exists(files.weights)) files.weights = join_path(folder, std::string(kIndex));
    RUN_CHECK(exists(files.weights), ErrorKind::kData, "{}: {} has no {} or {}{}", kFolderKey, folder, kWeights, kIndex,
              other_weights(folder));
  } else {
    RUN_CHECK(path.ends_with(".safetensors") || path.ends_with(".index.json"), ErrorKind::kData,
              "{}: {} is not a .safetensors file or its index; give the folder", kFolderKey, path);
    files.weights = path;
  }
  files.config = join_path(folder, "config.json");
  RUN_CHECK(exists(files.config), ErrorKind::kData,
            "{}: {} has no config.json, which says the sizes of the model; for weights alone, use model.init_from",
            kFolderKey, folder);
  check_fetched(files.weights);
  check_fetched(files.config);
  return files;
}

json::Value read_hub_config(const PretrainedFiles& files) {
  formats::InputFile input(files.config);
  RUN_CHECK(input.most_left() <= kLongestConfig, ErrorKind::kData, "{}: {} has {} bytes, limit {}", kFolderKey,
            files.config, input.most_left(), kLongestConfig);
  json::Value config = json::parse(input.read_rest(kLongestConfig));
  RUN_CHECK(config.map() != nullptr, ErrorKind::kData, "{}: {}: expected a JSON object", kFolderKey, files.config);
  return config;
}

std::vector<std::string> class_names_of(const json::Value& config) {
  const json::Object& labels = json::members_of(json::member(config, "id2label"));
  std::vector<std::string> names(labels.size());
  bool are_numbers = true;
  for (size_t i = 0; i < names.size(); ++i) {
    const json::Value& name = json::member(json::member(config, "id2label"), std::to_string(i));
    RUN_CHECK(name.text() != nullptr, ErrorKind::kData,
              "{}: id2label of config.json has {} names, but none for class {}", kFolderKey, labels.size(), i);
    names[i] = *name.text();
    are_numbers = are_numbers && names[i] == fmt::format("LABEL_{}", i);
  }
  return are_numbers ? std::vector<std::string>{} : names;
}

}  // namespace runner::nn
