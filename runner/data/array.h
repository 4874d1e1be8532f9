// Reads features and labels from raw arrays (IDX, npy, safetensors).
//
// The reader of a format parses type, shape and layout from the header. This file checks limits and values, converts
// elements and reorders column-major arrays. Every failure throws Error(kData) naming the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/data_format.h"
#include "runner/data/storage.h"
#include "runner/formats/input_file.h"

namespace runner::data {

enum class Element { kU8, kU16, kU32, kU64, kI8, kI16, kI32, kI64, kBool, kF16, kBf16, kF32, kF64 };

// Returns the type with this name in the header of an npy file (without the byte order) or of a safetensors file, or
// none.
std::optional<Element> npy_element(std::string_view name);
std::optional<Element> safetensors_element(std::string_view name);
// The names of all types, for messages.
std::string npy_elements();
std::string safetensors_elements();

// Returns the size of an element in bytes.
size_t size_of(Element element);

struct Array {
  std::string name;  // name in messages: the file, and the tensor if the file contains several
  Element element = Element::kF32;
  bool big_endian = false;
  bool column_major = false;
  std::vector<int64_t> shape = {};                           // (N, …)
  std::function<void(std::span<std::byte>)> read = nullptr;  // fills the span with the next bytes of the elements, or
                                                             // throws
};

// Throws Error(kData) unless the shape has 1 to 8 nonnegative axes and 1 to 2^31 − 1 samples. Also throws it if the
// elements need more than `most_bytes`, an upper bound for the data in the file. Call it before using the shape.
void check_shape(const Array& array, int64_t most_bytes);

// Stores the features (u8 elements as bytes) and applies `scale`. An array with one axis has one feature per sample.
// Refuses rows that cannot be used (refuse_row).
void take_features(Storage& storage, const Array& array, std::optional<double> scale, const ReadOptions& options);
// Stores the labels. Whole numbers of shape (N) or (N, 1) are classes if are_classes() says so; all other numbers, of
// shape (N) or (N, K), are targets. Call it after take_features(): the number of samples must match.
void take_labels(Storage& storage, const Array& array, const ReadOptions& options);

// The sources of a format with a file for each array.
inline constexpr Source kFeaturesAndLabels[] = {
    {.key = "features", .path = &schema::DatasetSpec::features_file, .contents = Contents::kSamples},
    {.key = "labels", .path = &schema::DatasetSpec::labels_file, .contents = Contents::kLabels}};
inline constexpr std::span<const Source> kArrayFiles = kFeaturesAndLabels;
// Reads kArrayFiles. `open`: parses the header of a file and checks the shape; leaves Array::read empty.
Storage read_array_files(const schema::DatasetSpec& spec, const ReadOptions& options,
                         Array (*open)(formats::InputFile&));

}  // namespace runner::data
