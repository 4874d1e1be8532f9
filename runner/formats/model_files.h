// A model as safetensors files no larger than asked for, with an index, as Hugging Face's libraries write and read
// them: model.safetensors, or model-00001-of-00003.safetensors, … and model.safetensors.index.json.  Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/safetensors.h"

namespace runner::formats {

inline constexpr int64_t kDefaultShardSize = 10'000'000'000;  // as Accelerate's save_model

// "5GB", "200MiB", "1.5 GB", "4096": bytes, at least 1.  K is 1000 and Ki 1024.  Throws Error(kUsage) that begins with
// `option`.
int64_t shard_size(std::string_view text, std::string_view option);

struct ModelFile {
  std::string name;
  std::vector<NamedTensor> tensors;
  std::string index;  // the text of an index, which has no tensors
};

// The files of a model that in one file would be called `name`; an index is the last.  Tensors are sorted by name, each
// is whole: a file has more than `most` bytes of tensors only where one tensor has.  Where the name does not end in
// .safetensors, there is one file.
std::vector<ModelFile> model_files(std::vector<NamedTensor> tensors, const std::string& name, int64_t most);

// Writes them where `path` is, each as write_file does (runner/formats/write.h), and removes those of an earlier model
// with other names, which a reader could take for this one's.  Returns what was written, as it is called from here.
std::vector<std::string> write_model(const std::filesystem::path& path, std::vector<NamedTensor> tensors, int64_t most);

}  // namespace runner::formats
