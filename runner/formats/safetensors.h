// The safetensors format: named tensors in one file (8-byte header length, JSON header, raw little-endian data).
//
// Used for data sets, model.init_from and export. Written files are deterministic: they depend only on names, types,
// shapes, values and metadata; tensors are sorted by name and stored without gaps. Reference:
// github.com/huggingface/safetensors, README "Format".
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/dtype.h"
#include "backends/tensor/shape.h"
#include "runner/formats/write.h"

namespace runner::formats {

// A tensor's name, type, shape and bytes. `dtype` is empty for types that the engine does not have.
struct NamedTensor {
  std::string name;
  std::optional<backends::DType> dtype;
  backends::Shape shape;
  std::span<const std::byte> bytes;  // unaligned if it points into a file
  std::string type = {};             // as written in a file that was read, such as "F32", "U8" or "F8_E4M3"
};

// A file read into memory, possibly gzipped. Its tensors are sorted by name and point into it.
class SafetensorsFile {
 public:
  // Throws Error(kData) naming the file, the tensor, what was found and what was expected.
  explicit SafetensorsFile(const std::string& path);

  std::span<const NamedTensor> tensors() const { return tensors_; }
  // Returns null if there is no such tensor.
  const NamedTensor* find(std::string_view name) const;

 private:
  std::vector<std::byte> data_;
  std::vector<NamedTensor> tensors_;
};

// The first names of tensors, for messages: "it has 'x', 'y'", or "it has no tensors". `names`: in quotes.
std::string tensor_names_text(std::span<const std::string> names);
std::string tensor_names_text(std::span<const NamedTensor> tensors);

// Texts by key, for the header's "__metadata__".
using Metadata = std::map<std::string, std::string>;

// Returns the contents of a file. Names must be unique.
std::vector<std::byte> safetensors_bytes(std::vector<NamedTensor> tensors, const Metadata& metadata = {});

// Replaces `path` with `write`. Names must be unique. Throws Error(kRun) if the file cannot be written.
void write_safetensors(const std::string& path, std::vector<NamedTensor> tensors, const Metadata& metadata = {},
                       const WriteParts& write = write_parts);

}  // namespace runner::formats
