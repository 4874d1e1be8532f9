// The safetensors format: named tensors in one file (8-byte header length, JSON header, raw little-endian data).
//
// Used for data sets, model.init_from and export. Written files are deterministic: they depend only on names, types,
// shapes and values; tensors are sorted by name and stored without gaps. Reference: github.com/huggingface/safetensors,
// README "Format".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tensor/dtype.h"
#include "backends/tensor/shape.h"

namespace runner::formats {

// A tensor's name, type, shape and bytes. `dtype` is empty for U8, which the engine does not support.
struct NamedTensor {
  std::string name;
  std::optional<backends::DType> dtype;
  backends::Shape shape;
  std::span<const std::byte> bytes;  // unaligned if it points into a file
};

// Returns "F32", "F64", "BF16", "F16", "I32", "I64" or "BOOL"; "U8" for an empty dtype.
std::string_view safetensors_type(std::optional<backends::DType> dtype);

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

// Returns the contents of a file. Names must be unique.
std::vector<std::byte> safetensors_bytes(std::vector<NamedTensor> tensors);

// Replaces `path` with write_file() (runner/formats/write.h). Names must be unique. Throws Error(kRun) if the file
// cannot be written.
void write_safetensors(const std::string& path, std::vector<NamedTensor> tensors);

}  // namespace runner::formats
