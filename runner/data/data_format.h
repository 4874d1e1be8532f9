// The definition of a data format of the recipe: the files that it reads, and how it reads them.
//
// Each format has one definition, in a file of its own, and a row in RUNNER_DATA_FORMATS; its fields are in
// schema/fields.yaml. There are no defaults: a definition that leaves out a field does not compile, a row without a
// definition does not link. Definitions are constants; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runner/data/storage.h"
#include "schema/base/required.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

class SampleReader;  // stream.h

enum class Contents {
  kSamples,  // features, perhaps with labels
  kLabels,   // not read if the labels are not needed
};

// A field of a data section that names a file or folder to read.
struct Source {
  using Path = std::string& (*)(schema::DatasetSpec& spec);

  Required<std::string_view> key;  // "path"
  Required<Path> path;
  Required<Contents> contents;

  const std::string& path_in(const schema::DatasetSpec& spec) const {
    return Path(path)(const_cast<schema::DatasetSpec&>(spec));  // which it only selects a member of
  }
  std::string& path_in(schema::DatasetSpec& spec) const { return Path(path)(spec); }
  // The key without its section: "input_ids".
  std::string_view name() const { return (*key).substr((*key).rfind('.') + 1); }
};
inline constexpr std::span<const Source> kNoSources{};
// A single file or folder that contains features and labels.
inline constexpr Source kPath{.key = "path",
                              .path = [](schema::DatasetSpec& spec) -> std::string& { return spec.path; },
                              .contents = Contents::kSamples};
inline constexpr std::span<const Source> kOnePath{&kPath, 1};

// How the samples of a format are read in every epoch instead of being kept in memory.
struct StreamDef {
  // Reads the sources once. Returns their description, which includes Storage::stream: number of samples, kind of
  // labels, missing values, digest.
  Required<Storage (*)(const schema::DatasetSpec& spec, const ReadOptions& options)> count;
  // Opens the sources of a storage that count() has returned and that outlives the reader.
  Required<std::unique_ptr<SampleReader> (*)(const Storage& storage)> open;
};
inline constexpr std::nullptr_t kNotStreamed = nullptr;

// All functions throw Error(kData) for a damaged or unsuitable file.
struct DataFormatDef {
  Required<schema::DataFormat> format;
  Required<std::span<const Source>> sources;  // the first has the samples; none: samples are computed
  // Reads all samples into memory.
  Required<Storage (*)(const schema::DatasetSpec& spec, const ReadOptions& options)> read;
  Required<const StreamDef*> stream;  // kNotStreamed if all samples must be in memory
  // Returns the number of samples that the recipe determines. kNoSampleCount if only the files have it.
  Required<int64_t (*)(const schema::DatasetSpec& spec)> sample_count;
};
inline constexpr std::nullptr_t kNoSampleCount = nullptr;

const DataFormatDef& definition_of(schema::DataFormat format);
std::span<const DataFormatDef* const> all_data_formats();

// Returns the path of the file or folder that has the samples, for messages; empty if they are computed.
const std::string& main_path(const schema::DatasetSpec& spec);
// Replaces the paths of a section by `paths`: one for each source, separated by commas. `predicts`: labels may be
// missing. Throws Error(kUsage) if the format has no files, or if labels are missing.
void set_paths(schema::DatasetSpec& spec, std::string_view paths, bool predicts);

// The formats of the recipe, one row each: the enumerator of schema::DataFormat without its k.
#define RUNNER_DATA_FORMATS(FORMAT) \
  FORMAT(Csv)                       \
  FORMAT(Tsv)                       \
  FORMAT(Jsonl)                     \
  FORMAT(Idx)                       \
  FORMAT(Text)                      \
  FORMAT(Lines)                     \
  FORMAT(Npy)                       \
  FORMAT(Safetensors)               \
  FORMAT(Cifar)                     \
  FORMAT(Images)                    \
  FORMAT(Synthetic)

#define RUNNER_DECLARE_DATA_FORMAT(Name) extern const DataFormatDef k##Name##Format;
RUNNER_DATA_FORMATS(RUNNER_DECLARE_DATA_FORMAT)
#undef RUNNER_DECLARE_DATA_FORMAT

}  // namespace runner::data
