// Writes and reads a model as sharded safetensors files with an index, in the layout of the Hugging Face libraries:
// model.safetensors, or model-00001-of-00003.safetensors, … and model.safetensors.index.json. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/safetensors.h"
#include "runner/formats/write.h"

namespace runner::formats {

inline constexpr int64_t kDefaultShardSize = 10'000'000'000;  // default of Accelerate's save_model

// Parses a size in bytes, at least 1: "5GB", "200MiB", "1.5 GB", "4096". K means 1000, Ki means 1024. Throws
// Error(kUsage) whose message begins with `option`.
int64_t shard_size(std::string_view text, std::string_view option);

struct ModelFile {
  std::string name;
  std::vector<NamedTensor> tensors;
  std::string index;  // JSON text of an index file, which has no tensors
};

// Returns the files of a model, with the index last. `name`: name of the file if one suffices. Tensors are sorted by
// name and never split: a file exceeds `most` bytes of tensors only if a single tensor does. If `name` does not end in
// .safetensors, there is always one file.
std::vector<ModelFile> model_files(std::vector<NamedTensor> tensors, const std::string& name, int64_t most);

// Writes the files of a model next to `path`, each with `write`. Removes shards and indices of an earlier model with
// the same name, which a reader could mistake for parts of this one. If a file cannot be written, new ones are removed.
// Every file with tensors has the metadata. Returns the paths written.
std::vector<std::string> write_model(const std::filesystem::path& path, std::vector<NamedTensor> tensors, int64_t most,
                                     const Metadata& metadata = {}, const WriteParts& write = write_parts);

// Reads an index: names of tensors by file, both sorted. Files are in the folder of the index or below. Throws
// Error(kData) naming `path` if it is no index, lists a tensor twice, or names another kind of file.
std::map<std::string, std::vector<std::string>> read_shard_index(const std::string& path);

// Returns the files that ModelTensors reads: `path`, and the files that it lists if it is an index.
std::vector<std::string> files_of_model(const std::string& path);

// The tensors of a safetensors file, or of the files that an index lists, sorted by name. In memory.
class ModelTensors {
 public:
  // A `path` that ends in .json is an index. Throws Error(kData) naming the file if a file cannot be read, or if the
  // index and its files differ: each file must have exactly the tensors that the index lists for it. `root`: folder
  // that must contain every file, links resolved; empty: any folder.
  explicit ModelTensors(const std::string& path, const std::string& root = {});

  std::span<const NamedTensor> tensors() const { return tensors_; }

 private:
  void read_shard(const std::string& index, const std::string& file, std::span<const std::string> names);
  void check_inside(const std::string& path) const;

  std::string root_;
  std::vector<SafetensorsFile> files_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace runner::formats
