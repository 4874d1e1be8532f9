// Reads safetensors data sets: the tensors `features` and `labels` of one file; or `input_ids`, perhaps
// `attention_mask` and `token_type_ids`, and `labels`.
#include "runner/formats/safetensors.h"

#include <cstring>
#include <optional>

#include "runner/data/array.h"
#include "runner/data/token_arrays.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

Storage read_safetensors(const schema::DatasetSpec& spec, const ReadOptions& options) {
  const formats::SafetensorsFile file(spec.path);
  const auto array_of = [&](const char* name) {
    const formats::NamedTensor* tensor = file.find(name);
    RUN_CHECK(tensor != nullptr, ErrorKind::kData, "{}: no tensor named {}; {}", spec.path, name,
              formats::tensor_names_text(file.tensors()));
    const std::optional<Element> element = safetensors_element(tensor->type);
    RUN_CHECK(element.has_value(), ErrorKind::kData, "{}: tensor {} has the unsupported type {}; expected one of {}",
              spec.path, name, in_quotes(tensor->type), safetensors_elements());
    Array array{.name = fmt::format("{}: {}", spec.path, name), .element = *element};
    array.shape.assign(tensor->shape.dims().begin(), tensor->shape.dims().end());
    check_shape(array, static_cast<int64_t>(tensor->bytes.size()));
    array.read = [rest = tensor->bytes](std::span<std::byte> out) mutable {
      std::memcpy(out.data(), rest.data(), out.size());
      rest = rest.subspan(out.size());
    };
    return array;
  };
  Storage storage;
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  if (has("features") || !has(kIdsName)) {
    const Array features = array_of("features");
    take_features(storage, features, spec.scale, options);
    arrange_images(storage, spec, features.name);
  } else {
    take_tokens(storage, array_of(kIdsName));
    if (has(kMaskName)) take_mask(storage, array_of(kMaskName), options);
    if (has(kSegmentsName)) take_ids(storage, array_of(kSegmentsName), kSegmentsName, 0);
  }
  if (!has("labels") && take_tokens_as_labels(storage, options)) return storage;
  if (!options.predicts && options.labels != LabelsAs::kFeatures) take_labels(storage, array_of("labels"), options);
  return storage;
}

}  // namespace

const DataFormatDef kSafetensorsFormat{.format = schema::DataFormat::kSafetensors,
                                       .sources = kOnePath,
                                       .read = read_safetensors,
                                       .stream = kNotStreamed,
                                       .sample_count = kNoSampleCount};

}  // namespace runner::data
