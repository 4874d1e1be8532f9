#include "runner/formats/model_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "runner/formats/input_file.h"
#include "runner/formats/write.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".index.json";
constexpr std::string_view kWeightMap = "weight_map";
constexpr int64_t kLongestIndex = 100'000'000;  // as the header of a file

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {{"", 1},      {"B", 1},
                           {"KB", 1e3},  {"KiB", 1024.0},
                           {"MB", 1e6},  {"MiB", 1024.0 * 1024},
                           {"GB", 1e9},  {"GiB", 1024.0 * 1024 * 1024},
                           {"TB", 1e12}, {"TiB", 1024.0 * 1024 * 1024 * 1024}};

int64_t bytes_of(const std::vector<NamedTensor>& tensors) {
  int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

// Splits greedily in order, like split_state_dict_into_shards_factory of huggingface_hub.
std::vector<std::vector<NamedTensor>> split(std::vector<NamedTensor> tensors, int64_t most) {
  std::vector<std::vector<NamedTensor>> parts(1);
  int64_t size = 0;
  for (NamedTensor& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.bytes.size());
    if (!parts.back().empty() && size + bytes > most) {
      parts.emplace_back();
      size = 0;
    }
    size += bytes;
    parts.back().push_back(std::move(tensor));
  }
  return parts;
}

std::string index_of(const std::vector<ModelFile>& files, int64_t total) {
  json::Object map;
  for (const ModelFile& file : files) {
    const std::string file_name = fs::path(file.name).filename();
    for (const NamedTensor& tensor : file.tensors) map.emplace_back(tensor.name, file_name);
  }
  return json::text(
      json::Object{{"metadata", json::Object{{"total_size", total}}}, {std::string(kWeightMap), std::move(map)}});
}

bool is_index(std::string_view path) {
  return path.ends_with(".json");
}

// Whether a relative path stays in its folder, by its names.
bool stays_inside(const fs::path& path) {
  return path.is_relative() && std::ranges::find(path, fs::path("..")) == path.end();
}

std::string_view stem_of(std::string_view name) {
  return name.substr(0, name.size() - kEnding.size());
}

// "-00001-of-00003.safetensors"
bool is_shard_ending(std::string_view text) {
  constexpr std::string_view kPattern = "-ddddd-of-ddddd.safetensors";
  return std::equal(text.begin(), text.end(), kPattern.begin(), kPattern.end(), [](char c, char pattern) {
    return pattern == 'd' ? std::isdigit(static_cast<unsigned char>(c)) != 0 : c == pattern;
  });
}

// Returns whether `file` may belong to an earlier model called `name`, and is not one of `files`.
bool is_left_over(const std::string& file, const std::string& name, const std::vector<ModelFile>& files) {
  if (!name.ends_with(kEnding) || std::ranges::find(files, file, &ModelFile::name) != files.end()) return false;
  const std::string_view stem = stem_of(name);
  return file == name || file == name + std::string(kIndexEnding) ||
         (file.starts_with(stem) && is_shard_ending(std::string_view(file).substr(stem.size())));
}

void remove_left_over(const fs::path& folder, const std::string& name, const std::vector<ModelFile>& files) {
  std::error_code ignored;  // files that cannot be listed or removed are kept
  std::vector<fs::path> gone;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    if (entry.is_regular_file(ignored) && is_left_over(entry.path().filename(), name, files))
      gone.push_back(entry.path());
  }
  for (const fs::path& file : gone) fs::remove(file, ignored);
}

}  // namespace

int64_t shard_size(std::string_view text, std::string_view option) {
  double count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto* const known =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) { return u.name == unit; });
  const double bytes = known != std::end(kUnits) ? count * known->bytes : -1;
  RUN_CHECK(error == std::errc() && bytes >= 1 && bytes <= 1e18, ErrorKind::kUsage,
            "{}: expected a size such as 5GB, 200MiB or 4096, got '{}'", option, text);
  return static_cast<int64_t>(bytes);
}

std::vector<ModelFile> model_files(std::vector<NamedTensor> tensors, const std::string& name, int64_t most) {
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  const int64_t total = bytes_of(tensors);
  if (!name.ends_with(kEnding)) most = std::max(total, most);
  std::vector<std::vector<NamedTensor>> parts = split(std::move(tensors), most);
  if (parts.size() == 1) return {{name, std::move(parts[0]), ""}};
  std::vector<ModelFile> files;
  for (size_t i = 0; i < parts.size(); ++i) {
    files.push_back(
        {fmt::format("{}-{:05}-of-{:05}{}", stem_of(name), i + 1, parts.size(), kEnding), std::move(parts[i]), ""});
  }
  std::string index = index_of(files, total);
  files.push_back({name + std::string(kIndexEnding), {}, std::move(index)});
  return files;
}

std::vector<std::string> write_model(const fs::path& path, std::vector<NamedTensor> tensors, int64_t most,
                                     const Metadata& metadata, const WriteParts& write) {
  const fs::path folder = path.parent_path();
  const std::string name = path.filename();
  std::vector<ModelFile> files = model_files(std::move(tensors), name, most);
  std::vector<std::string> written;
  NewFiles created;
  for (ModelFile& file : files) {
    written.push_back((folder / file.name).string());
    created.add(written.back());
    const std::string_view index = file.index;
    index.empty() ? write_safetensors(written.back(), std::move(file.tensors), metadata, write)
                  : write(written.back(), std::span(&index, 1), FileKind::kJson);
  }
  created.keep();
  remove_left_over(folder, name, files);
  return written;
}

std::map<std::string, std::vector<std::string>> read_shard_index(const std::string& path) {
  InputFile input(path);
  RUN_CHECK(input.most_left() <= kLongestIndex, ErrorKind::kData, "{}: the index has {} bytes, limit {}", path,
            input.most_left(), kLongestIndex);
  const json::Value index = json::parse(input.read_rest(kLongestIndex));
  const json::Value& map = json::member(index, kWeightMap);
  RUN_CHECK(map.map() != nullptr, ErrorKind::kData,
            "{}: expected an index of safetensors files, a JSON object with a map {} of tensors to files", path,
            kWeightMap);
  std::map<std::string, std::vector<std::string>> files;
  std::set<std::string_view> names;
  for (const auto& [name, file] : *map.map()) {
    RUN_CHECK(names.insert(name).second, ErrorKind::kData, "{}: {} lists tensor {} twice", path, kWeightMap,
              in_quotes(name));
    RUN_CHECK(file.text() != nullptr && !file.text()->empty(), ErrorKind::kData,
              "{}: {} has no file name for tensor {}", path, kWeightMap, in_quotes(name));
    RUN_CHECK(stays_inside(*file.text()), ErrorKind::kData,
              "{}: the file {} of tensor {} is outside the folder of the index", path, in_quotes(*file.text()),
              in_quotes(name));
    RUN_CHECK(file.text()->ends_with(kEnding), ErrorKind::kData,
              "{}: the file {} of tensor {} is not a .safetensors file; save the model as safetensors", path,
              in_quotes(*file.text()), in_quotes(name));
    files[*file.text()].push_back(name);
  }
  for (auto& [file, its_names] : files) std::ranges::sort(its_names);
  return files;
}

std::vector<std::string> files_of_model(const std::string& path) {
  std::vector<std::string> files{path};
  if (!is_index(path)) return files;
  for (const auto& [file, names] : read_shard_index(path)) files.push_back(join_path(folder_of(path), file));
  return files;
}

ModelTensors::ModelTensors(const std::string& path, const std::string& root) : root_(root) {
  check_inside(path);
  if (!is_index(path)) {
    const auto tensors = files_.emplace_back(path).tensors();
    tensors_.assign(tensors.begin(), tensors.end());
    return;
  }
  for (const auto& [file, names] : read_shard_index(path)) read_shard(path, file, names);
  std::ranges::sort(tensors_, {}, &NamedTensor::name);
}

void ModelTensors::check_inside(const std::string& path) const {
  RUN_CHECK(root_.empty() || is_inside(path, root_), ErrorKind::kData,
            "{} is outside the folder {}; copy the file, or a folder with all its files, into it", path, root_);
}

void ModelTensors::read_shard(const std::string& index, const std::string& file, std::span<const std::string> names) {
  const std::string path = join_path(folder_of(index), file);
  check_inside(path);
  std::error_code ignored;
  RUN_CHECK(fs::exists(path, ignored), ErrorKind::kData,
            "{}: the file {} of tensor {} does not exist; put it into the folder of the index", index, in_quotes(file),
            in_quotes(names.front()));
  const auto tensors = files_.emplace_back(path).tensors();
  for (const std::string& name : names)
    RUN_CHECK(std::ranges::binary_search(tensors, name, {}, &NamedTensor::name), ErrorKind::kData,
              "{}: {} has no tensor {}, which the index lists", index, in_quotes(file), in_quotes(name));
  for (const NamedTensor& tensor : tensors)
    RUN_CHECK(std::ranges::binary_search(names, tensor.name), ErrorKind::kData,
              "{}: {} has a tensor {}, which the index does not list for this file", index, in_quotes(file),
              in_quotes(tensor.name));
  tensors_.insert(tensors_.end(), tensors.begin(), tensors.end());
}

}  // namespace runner::formats
