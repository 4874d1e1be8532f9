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

bool is_integer(Element element);
// "(150, 4)".
std::string shape_text(const Array& array);
// Return the elements in row-major order, converted.
LargeArray<int64_t> read_integers(const Array& array);
LargeArray<double> read_doubles(const Array& array);

// Stores the features (u8 elements as bytes) and applies `scale`. An array with one axis has one feature per sample.
// Refuses rows that cannot be used (refuse_row).
void take_features(Storage& storage, const Array& array, std::optional<double> scale, const ReadOptions& options);
// Stores the labels. Whole numbers of shape (N) or (N, 1), and integers of the shape of the stored tokens, are classes
// if are_classes() says so, or tokens (take_token_labels()). All other numbers, of shape (N) or (N, K), are targets.
// Call it after the features: the number of samples must match.
void take_labels(Storage& storage, const Array& array, const ReadOptions& options);

// Orders the stored features as the section says: `layout: nhwc` makes (H, W, C) to (C, H, W), `transpose` exchanges
// rows and columns of (H, W). `name`: of the array, for messages. Throws Error(kData) for features of another rank.
void arrange_images(Storage& storage, const schema::DatasetSpec& spec, const std::string& name);

// The sources of a format with a file for each array.
inline constexpr Source kFeaturesFile{
    .key = "features",
    .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.features_file; },
    .contents = Contents::kSamples};
inline constexpr Source kLabelsFile{.key = "labels",
                                    .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.labels_file; },
                                    .contents = Contents::kLabels};
inline constexpr Source kArrayFiles[] = {kFeaturesFile, kLabelsFile};
// The same with named inputs.
inline constexpr Source kNamedArrayFiles[] = {
    kFeaturesFile,
    {.key = "inputs.input_ids",
     .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.inputs.input_ids; },
     .contents = Contents::kSamples},
    {.key = "inputs.attention_mask",
     .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.inputs.attention_mask; },
     .contents = Contents::kSamples},
    {.key = "inputs.token_type_ids",
     .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.inputs.token_type_ids; },
     .contents = Contents::kSamples},
    kLabelsFile};
// Reads the files that the section names. `open`: parses the header of a file and checks the shape; leaves Array::read
// empty.
Storage read_array_files(const schema::DatasetSpec& spec, const ReadOptions& options,
                         Array (*open)(formats::InputFile&));

}  // namespace runner::data
