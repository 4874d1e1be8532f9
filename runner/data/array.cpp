#include "runner/data/array.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/tensor/float16.h"
#include "runner/data/labels.h"
#include "runner/data/narrowing.h"
#include "runner/data/token_arrays.h"
#include "schema/base/error.h"
#include "schema/base/large_array.h"

namespace runner::data {
namespace {

struct TypeName {
  Element element;
  std::string_view npy, safetensors;  // empty: the format does not have it
};
constexpr TypeName kTypeNames[] = {
    {Element::kF16, "f2", "F16"},   {Element::kF32, "f4", "F32"}, {Element::kF64, "f8", "F64"},
    {Element::kBf16, "", "BF16"},   {Element::kI8, "i1", "I8"},   {Element::kI16, "i2", "I16"},
    {Element::kI32, "i4", "I32"},   {Element::kI64, "i8", "I64"}, {Element::kU8, "u1", "U8"},
    {Element::kU16, "u2", "U16"},   {Element::kU32, "u4", "U32"}, {Element::kU64, "u8", "U64"},
    {Element::kBool, "b1", "BOOL"},
};

std::optional<Element> find_element(std::string_view TypeName::*format, std::string_view name) {
  const auto* found = std::ranges::find(kTypeNames, name, format);
  return found == std::end(kTypeNames) || name.empty() ? std::nullopt : std::optional(found->element);
}

std::string all_elements(std::string_view TypeName::*format) {
  std::vector<std::string_view> names;
  for (const TypeName& type : kTypeNames)
    if (!(type.*format).empty()) names.push_back(type.*format);
  return fmt::format("{}", fmt::join(names, ", "));
}

int64_t product(std::span<const int64_t> dims) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  return elements;
}

// Calls use(T{}) with the C++ type that holds an element's bits; for 16-bit floats this is uint16_t.
template <class Use>
void with_type(Element element, Use use) {
  switch (element) {
    case Element::kU8:
    case Element::kBool: return use(uint8_t{});
    case Element::kI8: return use(int8_t{});
    case Element::kI16: return use(int16_t{});
    case Element::kU16:
    case Element::kF16:
    case Element::kBf16: return use(uint16_t{});
    case Element::kU32: return use(uint32_t{});
    case Element::kU64: return use(uint64_t{});
    case Element::kI32: return use(int32_t{});
    case Element::kI64: return use(int64_t{});
    case Element::kF32: return use(float{});
    case Element::kF64: return use(double{});
  }
}

template <class From, class To>
To convert(From value, Element element) {
  if (element == Element::kF16) return static_cast<To>(backends::f16_to_f32(static_cast<uint16_t>(value)));
  if (element == Element::kBf16) return static_cast<To>(backends::bf16_to_f32(static_cast<uint16_t>(value)));
  return static_cast<To>(value);
}

// Reads all elements in the order of the file.
template <class To>
LargeArray<To> read_elements(const Array& array) {
  LargeArray<To> values(static_cast<size_t>(product(array.shape)));
  with_type(array.element, [&](auto type) {
    using From = decltype(type);
    if constexpr (std::is_same_v<From, To>) {
      if (!array.big_endian) return array.read(std::as_writable_bytes(std::span(values)));
    }
    std::array<std::byte, 1 << 16> chunk;
    for (size_t done = 0; done < values.size();) {
      const size_t count = std::min(chunk.size() / sizeof(From), values.size() - done);
      array.read(std::span(chunk).first(count * sizeof(From)));
      for (size_t i = 0; i < count; ++i) {
        std::byte* bytes = chunk.data() + i * sizeof(From);
        if (array.big_endian) std::reverse(bytes, bytes + sizeof(From));
        From value;
        std::memcpy(&value, bytes, sizeof(From));
        if constexpr (std::is_same_v<From, uint64_t> && std::is_same_v<To, int64_t>)
          RUN_CHECK(value <= INT64_MAX, ErrorKind::kData, "{}: sample {}: label {} is too large; expected at most {}",
                    array.name, done + i, value, INT64_MAX);
        values[done + i] = convert<From, To>(value, array.element);
      }
      done += count;
    }
  });
  return values;
}

// Converts column-major order (first axis fastest) to row-major order.
template <class T>
LargeArray<T> to_row_major(const LargeArray<T>& columns, const std::vector<int64_t>& shape) {
  LargeArray<T> rows(columns.size());
  std::vector<int64_t> index(shape.size()), stride(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis-- > 0;) stride[axis] = stride[axis + 1] * shape[axis + 1];
  int64_t target = 0;
  for (const T& value : columns) {
    rows[static_cast<size_t>(target)] = value;
    for (size_t axis = 0; axis < shape.size(); ++axis) {  // increment the index, first axis fastest
      target += stride[axis];
      if (++index[axis] < shape[axis]) break;
      target -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return rows;
}

template <class To>
LargeArray<To> read_row_major(const Array& array) {
  LargeArray<To> values = read_elements<To>(array);
  if (array.column_major) values = to_row_major(values, array.shape);
  return values;
}

// Whether the type has numbers that f32 does not.
bool is_wide(Element element) {
  return size_of(element) > 4 || element == Element::kI32 || element == Element::kU32;
}

// Refuses rows with a feature that is not finite. `text_of(i)`: the i-th number of the file, and why it cannot be used.
template <class TextOf>
void refuse_not_finite(Storage& storage, const Array& array, bool predicts, const TextOf& text_of) {
  const auto width = static_cast<size_t>(storage.width());
  for (size_t i = 0; i < storage.values.size(); ++i)
    if (!std::isfinite(storage.values[i]))
      refuse_row(storage, predicts, static_cast<int64_t>(i / width), i % width, text_of(i), array.name);
}

// Rounds the elements to f32 values of the storage. T: a type that holds them exactly.
template <class T>
void take_wide(Storage& storage, const Array& array, std::optional<double> scale, const ReadOptions& options) {
  const LargeArray<T> elements = read_row_major<T>(array);
  const auto width = static_cast<size_t>(storage.width());
  Narrowing narrowing(width, options.normalized, options.offsets);
  storage.values = LargeArray<float>(elements.size());
  const auto rounded = [&](size_t i) { return static_cast<float>(elements[i]); };
  for (size_t i = 0; i < elements.size(); ++i) {
    const float value = rounded(i);
    storage.values[i] =
        narrowing.needs(i % width, value) ? narrowing.narrow(i % width, WideNumber(elements[i])) : value;
  }
  storage.offsets = narrowing.offsets();
  for (double& offset : storage.offsets) offset *= scale.value_or(1);
  storage.warnings = narrowing.warnings(options.has_recipe,
                                        [&](size_t feature) { return fmt::format("{} of {}", feature, array.name); });
  refuse_not_finite(storage, array, options.predicts, [&](size_t i) {
    const bool is_finite = std::isfinite(static_cast<double>(elements[i]));
    const char* const why = std::isfinite(rounded(i)) ? kTooFar : is_finite ? kIsTooLarge : kIsNotFinite;
    return fmt::format("{} {}", elements[i], why);
  });
}

void check_labels(std::span<const float> values, const Array& array) {
  const auto bad = std::find_if_not(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  if (bad == values.end()) return;
  const int64_t index = bad - values.begin();
  const int64_t width = product(array.shape) / array.shape[0];
  fail(ErrorKind::kData, "{}: sample {}, label {}: {} is not finite", array.name, index / width, index % width, *bad);
}

// (N), or (N, 1) as a table has it.
bool is_column(const Array& array) {
  return array.shape.size() == 1 || (array.shape.size() == 2 && array.shape[1] == 1);
}

LabelCounts counts_of(std::span<const int64_t> labels) {
  LabelCounts counts;
  for (const int64_t label : labels) {
    ++counts[label];
    if (counts.size() > kMaxLabels) break;
  }
  return counts;
}

// Takes whole numbers that are classes. Returns false if they are targets.
bool take_classes(Storage& storage, LargeArray<int64_t> labels, const Array& array, const ReadOptions& options) {
  LabelCounts counts = counts_of(labels);
  const WholeNumbers whole{.counts = counts, .rows = std::ssize(labels), .as_floats = !is_integer(array.element)};
  if (!are_classes(options, whole, array.name)) return false;
  storage.label_kind = LabelKind::kClass;
  storage.classes = std::move(labels);
  storage.outputs = std::ssize(counts);
  storage.label_counts = std::move(counts);
  return true;
}

void take_classes_of_tokens(Storage& storage, const Array& array, const ReadOptions& options) {
  storage.sequence = storage.feature_shape[0];
  constexpr const char* kExpected = "{}: expected a class for each token, as integers";
  RUN_CHECK(is_integer(array.element), ErrorKind::kData, kExpected, array.name);
  LargeArray<int64_t> labels = read_integers(array);
  hide_padding(storage, labels, options.ignore_index.value_or(kNoLabel));
  RUN_CHECK(take_classes(storage, std::move(labels), array, options), ErrorKind::kData, kExpected, array.name);
}

bool is_whole(double value) {
  return std::trunc(value) == value;
}

void refuse_few_fractions(std::span<const double> values, const Array& array) {
  LabelCounts counts;
  int64_t fractions = 0;
  size_t first = 0;
  for (size_t i = 0; i < values.size() && counts.size() <= kMaxLabels; ++i) {
    if (is_whole(values[i]) && std::fabs(values[i]) <= 0x1p24) {
      ++counts[static_cast<int64_t>(values[i])];
    } else if (fractions++ == 0) {
      first = i;
    }
  }
  if (const auto why = why_no_class(fractions, {.counts = counts, .rows = std::ssize(values)}))
    fail(ErrorKind::kData, "{}: sample {}: label {} {}", array.name, first, values[first], *why);
}

// Returns the values of a column as whole numbers. Throws if one is none, or is so large that its type rounds whole
// numbers; returns nothing if the labels need not be classes and are not classes but for a few.
LargeArray<int64_t> wholes(std::span<const double> values, const Array& array, LabelsAs as) {
  const bool must_be_classes = as == LabelsAs::kClasses, is_f64 = array.element == Element::kF64;
  const double most = must_be_classes && is_f64 ? 0x1p53 : 0x1p24;
  LargeArray<int64_t> numbers;
  for (const double value : values) {
    if (is_whole(value) && std::fabs(value) <= most) {
      numbers.push_back(static_cast<int64_t>(value));
      continue;
    }
    if (!must_be_classes) {
      refuse_few_fractions(values, array);
      return {};
    }
    const std::string label = fmt::format("{}: sample {}: label {}", array.name, numbers.size(), value);
    RUN_CHECK(is_whole(value), ErrorKind::kData, "{} is not a class; expected a whole number", label);
    fail(ErrorKind::kData, "{} is above {}, and {} rounds such numbers; write the labels as integers", label,
         is_f64 ? "2^53" : "2^24", is_f64 ? "f64" : "f32");
  }
  return numbers;
}

void take_targets(Storage& storage, const Array& array, LargeArray<float> values) {
  storage.label_kind = LabelKind::kTarget;
  storage.targets = std::move(values);
  storage.outputs = array.shape.size() == 2 ? array.shape[1] : 1;
}

}  // namespace

std::optional<Element> npy_element(std::string_view name) {
  return find_element(&TypeName::npy, name);
}

std::optional<Element> safetensors_element(std::string_view name) {
  return find_element(&TypeName::safetensors, name);
}

std::string npy_elements() {
  return all_elements(&TypeName::npy);
}

std::string safetensors_elements() {
  return all_elements(&TypeName::safetensors);
}

bool is_integer(Element element) {
  return element <= Element::kBool;
}

std::string shape_text(const Array& array) {
  return fmt::format("({})", fmt::join(array.shape, ", "));
}

LargeArray<int64_t> read_integers(const Array& array) {
  return read_row_major<int64_t>(array);
}

LargeArray<double> read_doubles(const Array& array) {
  return read_row_major<double>(array);
}

size_t size_of(Element element) {
  size_t size = 0;
  with_type(element, [&](auto type) { size = sizeof(type); });
  return size;
}

void check_shape(const Array& array, int64_t most_bytes) {
  const std::vector<int64_t>& shape = array.shape;
  const std::string text = shape_text(array);
  RUN_CHECK(!shape.empty() && shape.size() <= backends::Shape::kMaxRank, ErrorKind::kData,
            "{0}: expected shape (N, …) with 1 to {3} axes, got {1} with {2}", array.name, text, shape.size(),
            backends::Shape::kMaxRank);
  const auto size = static_cast<int64_t>(size_of(array.element));
  int64_t left = most_bytes / size;
  bool empty = false, fits = true;
  for (const int64_t dim : shape) {
    RUN_CHECK(dim >= 0, ErrorKind::kData, "{}: shape {} has a negative axis", array.name, text);
    empty = empty || dim == 0;
    fits = fits && dim <= left;
    left = dim == 0 ? left : left / dim;
  }
  RUN_CHECK(!empty, ErrorKind::kData, "{}: shape {} has no elements", array.name, text);
  RUN_CHECK(fits, ErrorKind::kData, "{}: shape {} needs more than the {} bytes after the header", array.name, text,
            most_bytes);
  RUN_CHECK(shape[0] <= INT32_MAX, ErrorKind::kData, "{0}: expected at most {2} samples, got {1}", array.name, shape[0],
            INT32_MAX);
}

void take_features(Storage& storage, const Array& array, std::optional<double> scale, const ReadOptions& options) {
  storage.samples = array.shape[0];
  storage.feature_shape =
      array.shape.size() == 1 ? backends::Shape{1} : backends::Shape(std::span(array.shape).subspan(1));
  if (array.element == Element::kU8) {
    storage.bytes = read_row_major<uint8_t>(array);
  } else if (array.element == Element::kI64) {
    take_wide<int64_t>(storage, array, scale, options);
  } else if (array.element == Element::kU64) {
    take_wide<uint64_t>(storage, array, scale, options);
  } else if (is_wide(array.element)) {
    take_wide<double>(storage, array, scale, options);
  } else {
    storage.values = read_row_major<float>(array);
    refuse_not_finite(storage, array, options.predicts,
                      [&](size_t i) { return fmt::format("{} {}", storage.values[i], kIsNotFinite); });
  }
  scale_values(storage, scale, options.predicts, array.name);
}

void take_labels(Storage& storage, const Array& array, const ReadOptions& options) {
  const LabelsAs as = options.labels;
  if (!storage.tokens.empty() && are_tokens(as)) return take_token_labels(storage, array, options);
  if (has_shape_of_tokens(storage, array) && as != LabelsAs::kTargets)
    return take_classes_of_tokens(storage, array, options);
  RUN_CHECK(array.shape[0] == storage.samples, ErrorKind::kData, "{0}: expected {2} labels, one per sample, got {1}",
            array.name, array.shape[0], storage.samples);
  RUN_CHECK(array.shape.size() <= 2, ErrorKind::kData, "{}: expected shape (N) of labels, or (N, K) of targets, got {}",
            array.name, shape_text(array));
  RUN_CHECK(as != LabelsAs::kClasses || is_column(array), ErrorKind::kData,
            "{}: expected shape (N) of class labels, got {}; an array (N, K) has K targets for each sample", array.name,
            shape_text(array));
  if (!is_column(array) || as == LabelsAs::kTargets) {
    LargeArray<float> values = read_row_major<float>(array);
    check_labels(values, array);
    return take_targets(storage, array, std::move(values));
  }
  if (is_integer(array.element)) {
    take_classes(storage, read_integers(array), array, options);
    return;
  }
  const LargeArray<double> numbers = read_doubles(array);
  LargeArray<float> values(numbers.size());
  std::ranges::transform(numbers, values.begin(), [](double number) { return static_cast<float>(number); });
  check_labels(values, array);
  LargeArray<int64_t> labels = wholes(numbers, array, as);
  if (labels.empty() || !take_classes(storage, std::move(labels), array, options))
    take_targets(storage, array, std::move(values));
}

namespace {

// Transposes each sample as a matrix with `rows` rows.
template <class Values>
void transpose_samples(Values& values, size_t width, size_t rows) {
  const size_t columns = width / rows;
  Values sample(width);
  for (size_t start = 0; start < values.size(); start += width) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(start);
    std::copy_n(begin, width, sample.begin());
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = 0; column < columns; ++column)
        begin[static_cast<ptrdiff_t>(column * rows + row)] = sample[row * columns + column];
  }
}

void transpose_features(Storage& storage, int64_t rows) {
  const auto width = static_cast<size_t>(storage.width()), height = static_cast<size_t>(rows);
  transpose_samples(storage.values, width, height);
  transpose_samples(storage.bytes, width, height);
  transpose_samples(storage.offsets, width, height);
}

// Whether features (C, H, W) look as if they had the channels last.
bool looks_like_channels_last(const backends::Shape& shape) {
  constexpr int64_t kMostChannels = 4;
  return shape.rank() == 3 && shape[2] <= kMostChannels && shape[0] > 2 * kMostChannels && shape[1] > 2 * kMostChannels;
}

}  // namespace

void arrange_images(Storage& storage, const schema::DatasetSpec& spec, const std::string& name) {
  backends::Shape& shape = storage.feature_shape;
  if (spec.layout == schema::ImageLayout::kNhwc) {
    RUN_CHECK(shape.rank() == 3, ErrorKind::kData, "{}: layout nhwc needs samples (H, W, C), got {}", name,
              shape.to_string());
    transpose_features(storage, shape[0] * shape[1]);
    shape = {shape[2], shape[0], shape[1]};
  } else if (looks_like_channels_last(shape)) {
    storage.warnings.push_back(
        fmt::format("samples {0} are read as {1} channels of {2} x {3}; if they are {1} x {2} pixels of {3} channels, "
                    "set layout: nhwc",
                    shape.to_string(), shape[0], shape[1], shape[2]));
  }
  if (spec.transpose) {
    RUN_CHECK(shape.rank() == 2, ErrorKind::kData, "{}: transpose needs samples (H, W), got {}", name,
              shape.to_string());
    transpose_features(storage, shape[0]);
    shape = {shape[1], shape[0]};
  }
}

Storage read_array_files(const schema::DatasetSpec& spec, const ReadOptions& options,
                         Array (*open)(formats::InputFile&)) {
  Storage storage;
  const auto read_file = [&](const std::string& path, auto take) {
    formats::InputFile input(path);
    Array array = open(input);
    array.read = [&](std::span<std::byte> out) { input.read_exactly(out, "the elements"); };
    take(array);
    input.expect_end();
  };
  const schema::InputFiles& inputs = spec.inputs;
  if (inputs.input_ids.empty())
    read_file(spec.features_file, [&](const Array& array) {
      take_features(storage, array, spec.scale, options);
      arrange_images(storage, spec, array.name);
    });
  else
    read_file(inputs.input_ids, [&](const Array& array) { take_tokens(storage, array); });
  if (!inputs.attention_mask.empty())
    read_file(inputs.attention_mask, [&](const Array& array) { take_mask(storage, array, options); });
  if (!inputs.token_type_ids.empty())
    read_file(inputs.token_type_ids, [&](const Array& array) { take_ids(storage, array, kSegmentsName, 0); });
  if (spec.labels_file.empty() && take_tokens_as_labels(storage, options)) return storage;
  if (options.labels != LabelsAs::kFeatures && !options.predicts) {
    read_file(spec.labels_file, [&](const Array& array) { take_labels(storage, array, options); });
  }
  return storage;
}

}  // namespace runner::data
