#include "runner/data/load.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <utility>

#include "runner/data/array.h"
#include "runner/data/fit.h"
#include "runner/data/labels.h"
#include "runner/data/random.h"
#include "runner/data/storage.h"
#include "runner/data/stream.h"
#include "runner/data/text.h"
#include "runner/formats/input.h"
#include "schema/base/error.h"
#include "schema/recipe/losses.h"

namespace runner::data {
namespace {

using schema::DataFormat;

// `shuffle_buffer`: size of the shuffle buffer of a stream, or 0 to read into memory.
Storage read_format(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer) {
  switch (spec.format) {
    case DataFormat::kCsv:
      return shuffle_buffer > 0 ? count_csv(spec, options, shuffle_buffer) : read_csv(spec, options);
    case DataFormat::kIdx: return read_array_files(spec, options, open_idx);
    case DataFormat::kNpy: return read_array_files(spec, options, open_npy);
    case DataFormat::kSafetensors: return read_safetensors(spec, options);
    case DataFormat::kSynthetic: return read_synthetic(spec, options);
    case DataFormat::kText: return shuffle_buffer > 0 ? count_text_samples(spec, shuffle_buffer) : read_text(spec);
  }
  RUN_ASSERT(false);
}

void use_features_as_targets(Storage& storage) {
  storage.label_kind = LabelKind::kTarget;
  storage.targets_are_features = true;
  storage.outputs = storage.width();
}

Storage read(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer,
             const std::string& name) {
  try {
    std::vector<DataFile> files = files_of(spec, name);
    Storage storage = read_format(spec, options, shuffle_buffer);
    for (DataFile& file : files) file.rows = storage.samples + std::ssize(storage.dropped_before);
    storage.files = std::move(files);
    if (options.labels == LabelsAs::kFeatures) use_features_as_targets(storage);
    return storage;
  } catch (Error& error) {
    throw error.note("while reading " + name);
  }
}

struct Parts {
  std::vector<int32_t> train, eval;  // row numbers, ascending
};

int64_t held_out_of(int64_t samples, double fraction) {
  return std::llround(fraction * static_cast<double>(samples));
}

Parts split(int64_t samples, double fraction, uint64_t seed) {
  const ptrdiff_t held_out = held_out_of(samples, fraction);
  RUN_CHECK(held_out > 0 && held_out < samples, ErrorKind::kRecipe,
            "data.split.eval: {} of {} samples makes one part empty", fraction, samples);
  std::vector<std::pair<uint64_t, int32_t>> hashes;
  for (int32_t row = 0; row < samples; ++row) {
    const Block bits = random_block(seed, Stream::kSplit, static_cast<uint64_t>(row), 0);
    hashes.emplace_back(uint64_t{bits[0]} << 32 | bits[1], row);
  }
  std::nth_element(hashes.begin(), hashes.begin() + held_out, hashes.end());
  Parts parts;
  for (ptrdiff_t i = 0; i < std::ssize(hashes); ++i) {
    (i < held_out ? parts.eval : parts.train).push_back(hashes[static_cast<size_t>(i)].second);
  }
  std::sort(parts.train.begin(), parts.train.end());
  std::sort(parts.eval.begin(), parts.eval.end());
  return parts;
}

// Replaces tokens by the positions of their names in `names`, which is sorted.
void use_tokens(Storage& storage, const std::vector<std::string>& names, const std::string& name) {
  if (storage.class_names == names) return;
  std::vector<uint32_t> token_of;
  for (const std::string& token : storage.class_names) {
    const auto found = std::lower_bound(names.begin(), names.end(), token);
    RUN_CHECK(found != names.end() && *found == token, ErrorKind::kData,
              "{}: unknown character {}: the model was not trained with it", name, formats::in_quotes(token));
    token_of.push_back(static_cast<uint32_t>(found - names.begin()));
  }
  for (uint32_t& token : storage.text.ids) token = token_of[token];
  storage.class_names = names;
}

// Checks that features and labels of a section match those of the training data.
void check_encoding(const Storage& storage, const Encoding& encoding, const std::string& name) {
  RUN_CHECK((storage.sequence > 0) == (encoding.sequence > 0), ErrorKind::kData,
            "{} is {}text, but the training data {}", name, storage.sequence > 0 ? "" : "not ",
            encoding.sequence > 0 ? "is" : "is not");
  RUN_CHECK(storage.feature_shape == encoding.feature_shape, ErrorKind::kData,
            "{0}: expected features {2} like the training data, got {1}", name, storage.feature_shape.to_string(),
            encoding.feature_shape.to_string());
  RUN_CHECK(std::ranges::equal(storage.more_inputs, encoding.more_inputs, {}, &IdInput::input), ErrorKind::kData,
            "{}: samples have other inputs than those of the training data", name);
  if (storage.label_kind == LabelKind::kNone) return;
  const bool classes = encoding.label_kind == LabelKind::kClass;
  RUN_CHECK(storage.label_kind == encoding.label_kind && (classes || storage.outputs == encoding.outputs),
            ErrorKind::kData, "{0}: expected {3} {4} like the training data, got {1} {2}", name, storage.outputs,
            storage.label_kind == LabelKind::kClass ? "classes" : "targets", encoding.outputs,
            classes ? "classes" : "targets");
  const auto sort = [](bool names) { return names ? "names" : "numbers"; };
  RUN_CHECK(!classes || storage.class_names.empty() != encoding.has_names(), ErrorKind::kData,
            "{0}: expected {2} as labels like the training data, got {1}", name, sort(!storage.class_names.empty()),
            sort(encoding.has_names()));
}

// Options for reading another section with the columns and the label kind of the training data.
ReadOptions same_as(const Encoding& encoding, uint64_t seed, bool predicts) {
  const LabelsAs classes = encoding.has_names() ? LabelsAs::kNames : LabelsAs::kClasses;
  const LabelsAs targets = encoding.reconstructs ? LabelsAs::kFeatures : LabelsAs::kTargets;
  return {.labels = encoding.label_kind == LabelKind::kTarget ? targets : classes,
          .predicts = predicts,
          .seed = seed,
          .eval = true,
          .feature_names = encoding.feature_names,
          .label_name = encoding.label_name,
          .feature_count = encoding.feature_shape.elements(),
          .normalized = encoding.normalize != schema::Normalize::kNone};
}

Encoding encoding_of(const Storage& train) {
  Encoding encoding;
  encoding.feature_shape = train.feature_shape;
  encoding.sequence = train.sequence;
  for (const IdInput& more : train.more_inputs) encoding.more_inputs.push_back(more.input);
  encoding.label_kind = train.label_kind;
  encoding.outputs = train.outputs;
  encoding.reconstructs = train.targets_are_features;
  encoding.class_names = train.class_names;
  encoding.feature_names = train.feature_names;
  encoding.label_name = train.label_name;
  return encoding;
}

// Merges the tokens of both sections, so that those found only in the eval data count.
void join_tokens(Encoding& encoding, Storage& train, Storage& eval) {
  std::vector<std::string> names;
  std::set_union(train.class_names.begin(), train.class_names.end(), eval.class_names.begin(), eval.class_names.end(),
                 std::back_inserter(names));
  encoding.class_names = names;
  encoding.outputs = names.empty() ? std::max(train.outputs, eval.outputs) : static_cast<int64_t>(names.size());
  use_tokens(train, names, "data.train");
  use_tokens(eval, names, "data.eval");
}

}  // namespace

LabelsAs labels_as(const schema::TrainSpec& train) {
  if (train.task == schema::Task::kClassification) return LabelsAs::kClasses;
  if (train.task == schema::Task::kRegression) return LabelsAs::kTargets;
  switch (schema::facts_of(train.loss).labels) {
    case schema::Labels::kAny: return LabelsAs::kAuto;
    case schema::Labels::kClasses: return LabelsAs::kClasses;
    case schema::Labels::kNumbers: return LabelsAs::kTargets;
  }
  return LabelsAs::kAuto;
}

Data load(const schema::DataSpec& spec, uint64_t seed, LabelsAs labels, std::optional<int64_t> ignore_index,
          const Encoding* known) {
  if (labels == LabelsAs::kAuto && known != nullptr)
    labels = known->label_kind == LabelKind::kTarget ? LabelsAs::kTargets : LabelsAs::kClasses;
  if (spec.train.reconstructs) labels = LabelsAs::kFeatures;
  const int64_t buffer = spec.stream ? spec.shuffle_buffer : 0;
  auto train = std::make_shared<Storage>(
      read(spec.train, {.labels = labels, .seed = seed, .normalized = spec.normalize != schema::Normalize::kNone},
           buffer, "data.train"));
  std::vector<DataFile> files = train->files;
  Encoding encoding = encoding_of(*train);
  encoding.normalize = spec.normalize;

  Parts parts;
  std::shared_ptr<Storage> eval;
  if (spec.eval.has_value()) {
    eval = std::make_shared<Storage>(read(*spec.eval, same_as(encoding, seed, false), buffer, "data.eval"));
    files.insert(files.end(), eval->files.begin(), eval->files.end());
    check_encoding(*eval, encoding, "data.eval");
    if (encoding.sequence > 0) join_tokens(encoding, *train, *eval);
  } else if (spec.split.has_value() && encoding.sequence > 0) {
    TextParts cut = split_text(std::move(*train), spec.split->eval, spec.train.path);
    *train = std::move(cut.train);
    eval = std::make_shared<Storage>(std::move(cut.eval));
  } else if (spec.split.has_value()) {
    parts = split(train->samples, spec.split->eval, seed);
    eval = train;
  }

  encode_labels(encoding, *train, eval && eval != train ? eval.get() : nullptr, ignore_index, known);
  std::vector<std::string> warnings;
  std::vector<int64_t> counts;
  if (!train->label_counts.empty()) {
    counts = class_counts(*train, encoding, parts.train);
    warnings = label_warnings(encoding, *train);
  }
  if (eval && !train->label_counts.empty()) {
    for (std::string& text : class_warnings(encoding, counts, class_counts(*eval, encoding, parts.eval)))
      warnings.push_back(std::move(text));
  }

  if (spec.train.missing == schema::Missing::kMean || (spec.eval && spec.eval->missing == schema::Missing::kMean)) {
    fit_fill(encoding, *train, parts.train, spec.train.path);
    fill_missing(*train, encoding, "data.train");
    if (eval && eval != train) fill_missing(*eval, encoding, "data.eval");
  }
  fit_normalization(encoding, *train, parts.train);

  Dataset train_set("data.train", train, std::move(parts.train), encoding);
  std::optional<Dataset> eval_set;
  if (eval) eval_set.emplace("data.eval", eval, std::move(parts.eval), encoding);
  for (std::string& text : train_set.warnings()) warnings.push_back(std::move(text));
  if (eval && eval != train) {
    for (std::string& text : eval_set->warnings()) warnings.push_back(std::move(text));
  }
  return {std::move(encoding), std::move(train_set), std::move(eval_set),
          std::move(warnings), std::move(files),     std::move(counts)};
}

std::optional<int64_t> known_samples(const schema::DataSpec& spec) {
  if (spec.train.format != DataFormat::kSynthetic) return std::nullopt;
  return spec.train.samples - held_out_of(spec.train.samples, spec.split ? spec.split->eval : 0);
}

namespace {

// Targets of a loss of probabilities. Those of a stream are not in memory, and synthetic ones are any numbers.
void check_probabilities(const Dataset& set, schema::Loss loss) {
  const LargeArray<float>& targets = set.storage().targets;
  const auto wrong = std::ranges::find_if(targets, [](float target) { return !(target >= 0 && target <= 1); });
  RUN_CHECK(wrong == targets.end(), ErrorKind::kData,
            "{}: train.loss: {} needs targets from 0 to 1, got {}; for classes, remove train.task and use {}",
            set.name(), name_of(loss), *wrong, schema::losses_for(schema::Labels::kClasses));
}

}  // namespace

Data load(const schema::Recipe& recipe, const Encoding* known) {
  const schema::TrainSpec& train = recipe.train;
  Data data = load(recipe.data, data_seed(recipe), labels_as(train), train.ignore_index, known);
  if (train.class_weights.balanced && data.encoding.label_kind == LabelKind::kClass)
    data.encoding.balanced_weights = balanced_weights(
        data.class_counts.empty() ? data.train.count_classes(data.encoding.ignored_label) : data.class_counts);
  if (schema::facts_of(train.loss).needs_probabilities) {
    check_probabilities(data.train, train.loss);
    if (data.eval) check_probabilities(*data.eval, train.loss);
  }
  if (data.eval && recipe.eval.batches) {
    int64_t samples = 0;
    const int64_t size = recipe.eval.batch_size.value_or(recipe.data.batch_size);
    if (!__builtin_mul_overflow(*recipe.eval.batches, size, &samples)) data.eval = data.eval->thinned(samples);
  }
  return data;
}

Encoding completed(Encoding encoding, const schema::TrainSpec& train) {
  if (encoding.ignored_label) return encoding;
  encoding.ignored_label = train.ignore_index;
  if (!encoding.has_names()) encoding.ignore_index = train.ignore_index;
  return encoding;
}

uint64_t data_seed(const schema::Recipe& recipe) {
  return static_cast<uint64_t>(recipe.data.seed.value_or(recipe.seed));
}

Dataset load_encoded(const schema::DatasetSpec& spec, const Encoding& encoding, uint64_t seed, std::string name,
                     bool predicts, int64_t shuffle_buffer) {
  schema::DatasetSpec file = spec;
  if (predicts) file.missing = encoding.fill.empty() ? schema::Missing::kError : schema::Missing::kMean;
  const ReadOptions options = same_as(encoding, seed, predicts);
  auto storage = std::make_shared<Storage>(read(file, options, shuffle_buffer, name));
  check_encoding(*storage, encoding, name);
  storage->sequence > 0 ? use_tokens(*storage, encoding.class_names, name) : use_classes(*storage, encoding, name);
  fill_missing(*storage, encoding, name);
  return Dataset(std::move(name), storage, {}, encoding);
}

}  // namespace runner::data
