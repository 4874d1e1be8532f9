// Raw arrays (idx, npy, safetensors) as features and labels.
//
// A format's reader finds type, shape and layout in its header; the rest is here: limits, conversion, column-major
// order, checks of values.  Every failure is an Error(kData) that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runner/data/storage.h"
#include "runner/formats/input.h"

namespace runner::data {

enum class Element { kU8, kI8, kI16, kI32, kI64, kF16, kBf16, kF32, kF64, kBool };

// Bytes of one element.
size_t size_of(Element element);

struct Array {
  std::string name;  // for messages: the file, and the tensor in it
  Element element = Element::kF32;
  bool big_endian = false;
  bool column_major = false;
  std::vector<int64_t> shape = {};                           // (N, …)
  std::function<void(std::span<std::byte>)> read = nullptr;  // fills the span with the elements' next bytes, or throws
};

// Read the header of a file and leave `read` empty; `check_shape` is done.
Array open_idx(formats::Input& input);
Array open_npy(formats::Input& input);

// Throws when the shape has no sample, more than 2^31 - 1, more than 8 axes, a negative one, or more bytes than
// `most_bytes`, which are what the file can hold.  Call it before anything else.
void check_shape(const Array& array, int64_t most_bytes);

// Stores the features (bytes stay bytes) and applies the scale.  A one-dimensional array is one feature.
void take_features(Storage& storage, const Array& array, std::optional<double> scale);
// Stores labels: integers (N) are classes, floats (N) or (N, K) targets, unless `as` says otherwise.  After the
// features: both must have as many samples.
void take_labels(Storage& storage, const Array& array, LabelsAs as);

// Features and labels from a file each (spec.features_file, spec.labels_file).
Storage read_array_files(const schema::DatasetSpec& spec, const ReadOptions& options, Array (*open)(formats::Input&));

}  // namespace runner::data
