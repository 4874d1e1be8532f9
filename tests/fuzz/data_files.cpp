// Data files: safetensors, npy, idx, cifar, csv, text, text columns.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/data/csv_value.h"
#include "runner/data/data_format.h"
#include "runner/data/labels.h"
#include "runner/data/load.h"
#include "runner/data/stream.h"
#include "runner/data/token_rows.h"
#include "runner/formats/model_files.h"
#include "runner/formats/safetensors.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

using data::LabelKind;
using data::LabelsAs;
using data::Storage;
using schema::DataFormat;
using schema::DatasetSpec;

bool finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

void check_labels(const Storage& storage) {
  const auto samples = static_cast<size_t>(storage.samples), outputs = static_cast<size_t>(storage.outputs);
  switch (storage.label_kind) {
    case LabelKind::kNone: require(storage.classes.empty() && storage.targets.empty(), "labels of no kind"); break;
    case LabelKind::kClass:
      require(storage.classes.size() == samples && storage.targets.empty(), "not a class for each sample");
      if (storage.label_counts.size() <= data::kMaxLabels)
        for (const int64_t label : storage.classes) require(storage.label_counts.contains(label), "no such label");
      break;
    case LabelKind::kTarget:
      require(storage.targets.size() == samples * outputs && storage.classes.empty(), "not targets for each sample");
      require(finite(storage.targets), "a target is not finite");
      break;
  }
  const std::vector<std::string>& names = storage.class_names;
  require(names.empty() || names.size() == outputs, "not a name for each class");
  require(std::is_sorted(names.begin(), names.end()) && std::adjacent_find(names.begin(), names.end()) == names.end(),
          "class names are not sorted, or not different");
}

void check_storage(const Storage& storage, bool may_miss) {
  require(storage.samples > 0 && storage.width() > 0, "nothing was read");
  const auto elements = static_cast<size_t>(storage.samples) * static_cast<size_t>(storage.width());
  require(storage.values.size() + storage.bytes.size() == elements, "samples and features do not fit the shape");
  require(storage.values.empty() || storage.bytes.empty(), "features of two kinds");
  require(may_miss || finite(storage.values), "a feature is not finite");
  const size_t names = storage.feature_names.size();
  require(names == 0 || names == static_cast<size_t>(storage.width()), "not a name for each feature");
  check_labels(storage);
}

// Reads the data like a run, with statistics, and its first and last sample.
void load_and_gather(const DatasetSpec& spec, LabelsAs labels) {
  schema::DataSpec section;
  section.train = spec;
  section.normalize = schema::Normalize::kStandard;
  const data::Data loaded = data::load(section, 1, labels);
  const data::Dataset& train = loaded.train;
  const std::vector<int64_t> ids{0, train.size() - 1};
  std::vector<float> features(2 * static_cast<size_t>(train.feature_shape().elements()));
  train.gather_features(ids, features);
  if (train.label_kind() == LabelKind::kClass) {
    std::vector<int64_t> classes(2);
    train.gather_classes(ids, classes);
    for (const int64_t label : classes) require(label >= 0 && label < train.outputs(), "no such class");
  } else {
    std::vector<float> targets(2 * static_cast<size_t>(train.outputs()));
    train.gather_targets(ids, targets);
    require(finite(targets), "a target is not finite");
  }
}

constexpr LabelsAs kLabels[] = {LabelsAs::kAuto, LabelsAs::kClasses, LabelsAs::kTargets};

DatasetSpec array_spec(DataFormat format, const std::string& path) {
  DatasetSpec spec;
  spec.format = format;
  spec.features_file = path;
  return spec;
}

// As features, and as features and labels at once.
template <DataFormat format>
bool read_arrays(Bytes input) {
  const bool accepted = accepts(input, [](const std::string& path) {
    check_storage(data::definition_of(format).read(array_spec(format, path), {.predicts = true}), false);
  });
  // Bytes that cannot be features need not be read again.
  return accepted && (accepts(input,
                              [](const std::string& path) {
                                DatasetSpec spec = array_spec(format, path);
                                spec.labels_file = path;
                                for (const LabelsAs labels : kLabels)
                                  check_storage(data::definition_of(format).read(spec, {.labels = labels}), false);
                                load_and_gather(spec, LabelsAs::kAuto);
                              }),
                      true);
}

// Returns the bytes of all tensors.
size_t check_tensors(const formats::SafetensorsFile& file) {
  const auto tensors = file.tensors();
  size_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const formats::NamedTensor& tensor = tensors[i];
    // Types that the engine does not have are checked where the reader knows their size.
    require(!tensor.dtype ||
                tensor.bytes.size() == static_cast<size_t>(tensor.shape.elements()) * backends::size_of(*tensor.dtype),
            "bytes do not fit the shape");
    require(i == 0 || tensors[i - 1].name < tensor.name, "tensors are not sorted");
    require(file.find(tensor.name) == &tensor, "a tensor is not found by its name");
    bytes += tensor.bytes.size();
  }
  return bytes;
}

// The first byte selects how a file is read.
DatasetSpec csv_spec(uint8_t choice) {
  constexpr schema::Missing kMissing[] = {schema::Missing::kError, schema::Missing::kDrop, schema::Missing::kMean,
                                          schema::Missing::kMean};
  DatasetSpec spec;
  spec.header = (choice & 1) != 0    ? schema::Header::kFalse
                : (choice & 64) != 0 ? schema::Header::kTrue
                                     : schema::Header::kAuto;
  spec.decimal = (choice & 128) == 0 ? '.' : ',';
  spec.missing = kMissing[choice >> 1 & 3];
  spec.delimiter = (choice & 8) == 0 ? ',' : ';';
  return spec;
}

uint8_t csv_choice;

// Replaces labels by classes, as loading does.
void use_own_classes(Storage& storage) {
  data::Encoding encoding;
  encoding.label_kind = storage.label_kind;
  encoding.outputs = storage.outputs;
  data::encode_labels(encoding, storage, nullptr, std::nullopt);
}

Storage count_stream(const DatasetSpec& spec, const data::ReadOptions& options) {
  const data::StreamDef* const stream = data::definition_of(spec.format).stream;
  return stream->count(spec, options);
}

// A stream of the file yields what was loaded, to the bit.
void check_streamed(const DatasetSpec& spec, const data::ReadOptions& options, const Storage& loaded) {
  Storage counted = count_stream(spec, options);
  use_own_classes(counted);
  require(counted.samples == loaded.samples && std::ranges::equal(counted.dropped_before, loaded.dropped_before),
          "other rows");
  require(counted.feature_names == loaded.feature_names && counted.class_names == loaded.class_names, "other names");
  require(counted.offsets == loaded.offsets && counted.warnings == loaded.warnings, "other offsets or warnings");
  require(counted.label_kind == loaded.label_kind && counted.outputs == loaded.outputs, "labels of another kind");
  data::StreamedRows rows(counted);
  const auto width = static_cast<size_t>(loaded.width());
  std::vector<int64_t> classes;
  for (size_t i = 0; rows.next(); ++i) {
    if (loaded.label_kind == LabelKind::kClass) rows.read_classes(classes);
    require(std::memcmp(rows.features().data(), loaded.values.data() + i * width, width * sizeof(float)) == 0,
            "other features");
    if (loaded.label_kind == LabelKind::kClass) require(classes == std::vector{loaded.classes[i]}, "another class");
    if (loaded.label_kind == LabelKind::kTarget) require(rows.target() == loaded.targets[i], "another target");
  }
  require(rows.sample() + 1 == loaded.samples, "not every sample");
}

}  // namespace

bool idx(Bytes input) {
  return read_arrays<DataFormat::kIdx>(input);
}
bool cifar(Bytes input) {
  return accepts(input, [](const std::string& path) {
    DatasetSpec spec;
    spec.format = DataFormat::kCifar;
    spec.path = path;
    const Storage storage = data::definition_of(spec.format).read(spec, {});
    check_labels(storage);
    std::vector<float> features(static_cast<size_t>(storage.width()));
    for (int64_t row = 0; row < storage.samples; ++row) {
      storage.read_row(row, features);
      require(std::ranges::all_of(features, [](float value) { return value >= 0 && value <= 1; }), "no byte / 255");
    }
  });
}
bool npy(Bytes input) {
  return read_arrays<DataFormat::kNpy>(input);
}

bool safetensors(Bytes input) {
  static size_t in_tensors;
  const bool accepted =
      accepts(input, [](const std::string& path) { in_tensors = check_tensors(formats::SafetensorsFile(path)); });
  if (!accepted) return false;
  // Unless it is gzip, the file consists of the header's length, the header and the tensors.
  uint64_t header = 0;
  if (input[0] != 0x1f || input[1] != 0x8b) {
    std::memcpy(&header, input.data(), sizeof(header));
    require(input.size() == sizeof(header) + header + in_tensors, "tensors do not cover the data");
  }
  accepts(input, [](const std::string& path) {
    DatasetSpec spec;
    spec.format = DataFormat::kSafetensors;
    spec.path = path;
    check_storage(data::kSafetensorsFormat.read(spec, {.predicts = true}), false);
    for (const LabelsAs labels : kLabels) load_and_gather(spec, labels);
  });
  return true;
}

bool csv(Bytes input) {
  if (input.empty()) return false;
  csv_choice = input[0];
  return accepts(input.subspan(1), [](const std::string& path) {
    DatasetSpec spec = csv_spec(csv_choice);
    spec.path = path;
    const bool mean = spec.missing == schema::Missing::kMean;
    const LabelsAs labels = kLabels[(csv_choice >> 4) % std::size(kLabels)];
    const data::ReadOptions options{.labels = labels, .normalized = (csv_choice & 64) != 0};
    Storage loaded = data::kCsvFormat.read(spec, options);
    check_storage(loaded, mean);
    use_own_classes(loaded);
    check_streamed(spec, options, loaded);
    load_and_gather(spec, labels);
  });
}

// The first byte selects how a text is divided. Samples and labels match the file, and a stream yields the same.
bool text(Bytes input) {
  if (input.empty()) return false;
  static uint8_t choice;
  choice = input[0];
  return accepts(input.subspan(1), [](const std::string& path) {
    DatasetSpec spec;
    spec.format = DataFormat::kText;
    spec.path = path;
    spec.tokens = (choice & 1) == 0 ? "characters" : "bytes";
    spec.sequence_length = 1 + (choice >> 1 & 7);
    spec.stride = 1 + (choice >> 4);
    const Storage loaded = data::kTextFormat.read(spec, {}), counted = count_stream(spec, {});
    require(counted.samples == loaded.samples && counted.class_names == loaded.class_names, "another vocabulary");
    const auto width = static_cast<size_t>(spec.sequence_length);
    std::vector<int64_t> tokens(width), labels(width), streamed;
    data::StreamedRows rows(counted);
    for (int64_t row = 0; row < loaded.samples; ++row) {
      require(rows.next(), "the stream ends too early");
      rows.read_classes(streamed);
      loaded.read_tokens(row, tokens);
      loaded.read_classes(row, labels);
      require(std::ranges::equal(rows.tokens(), tokens) && streamed == labels, "another sample");
      for (const int64_t label : labels) require(label >= 0 && label < loaded.outputs, "no such token");
    }
    require(!rows.next(), "the stream continues");
  });
}

// The first byte selects the format, one text or a pair, the tokenizer, and how texts are cut.
bool token_rows(Bytes input) {
  if (input.empty()) return false;
  static uint8_t choice;
  choice = input[0];
  return accepts(input.subspan(1), [](const std::string& path) {
    constexpr DataFormat kFormats[] = {DataFormat::kJsonl, DataFormat::kTsv, DataFormat::kCsv, DataFormat::kJsonl};
    schema::DataSpec section;
    section.train.format = kFormats[choice & 3];
    section.train.path = path;
    section.train.text_columns = {{"a", 0}};
    if ((choice & 4) != 0) section.train.text_columns.push_back({"b", 0});
    section.train.label = schema::Column{"label", 0};
    section.train.missing = (choice & 128) == 0 ? schema::Missing::kError : schema::Missing::kDrop;
    section.tokens = schema::TokensSpec{.tokenizer = (choice & 8) == 0 ? "bytes" : "characters",
                                        .max_length = 1 + (choice >> 4 & 7)};
    const data::Data loaded = data::load(section, 1, LabelsAs::kAuto);
    const data::Dataset& train = loaded.train;
    const data::TokenRows& rows = *train.storage().rows;
    const auto width = static_cast<size_t>(section.tokens->max_length);
    require(train.size() > 0 && train.feature_shape().elements() == section.tokens->max_length, "another shape");
    for (int64_t row = 0; row < train.size(); ++row) {
      std::vector<int64_t> ids(width), visible(width), segments(width);
      train.gather_input(0, std::vector{row}, std::as_writable_bytes(std::span(ids)));
      train.gather_input(1, std::vector{row}, std::as_writable_bytes(std::span(visible)));
      train.gather_input(2, std::vector{row}, std::as_writable_bytes(std::span(segments)));
      const int64_t length = rows.length(row);
      for (size_t t = 0; t < width; ++t) {
        require(ids[t] >= 0 && ids[t] < loaded.encoding.vocabulary, "no such token");
        require(visible[t] == (static_cast<int64_t>(t) < length), "the mask is not that of the tokens");
        require(segments[t] == 0 || (segments[t] == 1 && visible[t] == 1), "padding has a segment");
        require(t == 0 || visible[t] == 0 || segments[t] >= segments[t - 1], "segments are mixed");
      }
    }
    check_labels(train.storage());
  });
}

bool shard_index(Bytes input) {
  return accepts(input, [](const std::string& path) {
    std::set<std::string> names;
    for (const auto& [file, its_names] : formats::read_shard_index(path)) {
      require(file.ends_with(".safetensors") && !file.starts_with('/'), "a file of another kind or folder");
      require(!file.starts_with("../") && file.find("/../") == file.npos, "a file outside the folder");
      require(!its_names.empty() && std::is_sorted(its_names.begin(), its_names.end()), "names are not sorted");
      for (const std::string& name : its_names) require(names.insert(name).second, "a tensor in two files");
    }
  });
}

}  // namespace runner::fuzz
