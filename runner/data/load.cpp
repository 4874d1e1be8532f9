#include "runner/data/load.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "backends/runtime/available_memory.h"
#include "runner/data/character_vocabulary.h"
#include "runner/data/data_format.h"
#include "runner/data/fit.h"
#include "runner/data/labels.h"
#include "runner/data/narrowing.h"
#include "runner/data/random.h"
#include "runner/data/storage.h"
#include "runner/data/text.h"
#include "runner/formats/reading_watch.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"
#include "schema/recipe/causal_models.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/losses.h"

namespace runner::data {
namespace {

void use_features_as_targets(Storage& storage) {
  storage.label_kind = LabelKind::kTarget;
  storage.targets_are_features = true;
  storage.outputs = storage.width();
}

// `shuffle_buffer`: size of the shuffle buffer of a stream, or 0 to read into memory. Formats that cannot be streamed
// are read into memory.
Storage read(const schema::DatasetSpec& spec, const ReadOptions& options, int64_t shuffle_buffer,
             const std::string& name) {
  const formats::ReadingWatch watch;
  try {
    std::vector<DataFile> files = files_of(spec, name);
    const DataFormatDef& format = definition_of(spec.format);
    const StreamDef* const stream = shuffle_buffer > 0 ? format.stream : nullptr;
    Storage storage = stream != nullptr ? stream->count(spec, options) : format.read(spec, options);
    if (stream != nullptr) storage.stream->shuffle_buffer = shuffle_buffer;
    for (DataFile& file : files) file.rows = storage.samples + std::ssize(storage.dropped_before);
    storage.files = std::move(files);
    if (options.labels == LabelsAs::kFeatures) use_features_as_targets(storage);
    return storage;
  } catch (Error& error) {
    // The message of a file that was given on the command line has its name.
    const bool has_place = error.kind() == ErrorKind::kInterrupted || error.message().find(name) != std::string::npos;
    if (!has_place) error.note("while reading " + name);
    error.set_key(spec.path.empty() ? name : name + ".path");
    throw;
  }
}

struct Parts {
  LargeArray<int32_t> train, eval;  // row numbers, ascending
};

int64_t held_out_of(int64_t samples, double fraction) {
  return std::llround(fraction * static_cast<double>(samples));
}

Parts split(int64_t samples, double fraction, uint64_t seed) {
  const ptrdiff_t held_out = held_out_of(samples, fraction);
  RUN_CHECK(held_out > 0 && held_out < samples, ErrorKind::kRecipe,
            "data.split.eval: {} of {} holds out {}; both parts need at least one", fraction,
            count_text(samples, "sample"), held_out);
  std::vector<std::pair<uint64_t, int32_t>> hashes;
  const size_t bytes = static_cast<size_t>(samples) * (sizeof(hashes[0]) + sizeof(int32_t));
  RUN_CHECK(bytes <= backends::available_memory(), ErrorKind::kRecipe,
            "data.split: to divide {} needs {}, and {} are available; use fewer samples, or data.eval",
            count_text(samples, "sample"), schema::readable_size(static_cast<int64_t>(bytes)),
            schema::readable_size(static_cast<int64_t>(backends::available_memory())));
  hashes.reserve(static_cast<size_t>(samples));
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

// Checks that features and labels of a section match those of the training data.
void check_encoding(const Storage& storage, const Encoding& encoding, const std::string& name) {
  const bool has_tokens = storage.vocabulary > 0;
  RUN_CHECK(has_tokens == encoding.has_tokens(), ErrorKind::kData, "{} is {}text, but the training data {}", name,
            has_tokens ? "" : "not ", encoding.has_tokens() ? "is" : "is not");
  RUN_CHECK(storage.feature_shape == encoding.feature_shape, ErrorKind::kData,
            "{0}: expected features {2} like the training data, got {1}", name, storage.feature_shape.to_string(),
            encoding.feature_shape.to_string());
  const std::vector<SampleInput> more = storage.further_inputs();
  RUN_CHECK(std::ranges::equal(more, encoding.more_inputs, {}, &SampleInput::name, &SampleInput::name),
            ErrorKind::kData, "{}: samples have other inputs than those of the training data", name);
  for (size_t i = 0; i < more.size(); ++i)
    RUN_CHECK(more[i].vocabulary <= encoding.more_inputs[i].vocabulary, ErrorKind::kData,
              "{}: {} goes up to {}, but to {} in the training data", name, more[i].name, more[i].vocabulary - 1,
              encoding.more_inputs[i].vocabulary - 1);
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
  const LabelsAs classes = encoding.token_labels == TokenLabels::kNext  ? LabelsAs::kNextTokens
                           : encoding.token_labels == TokenLabels::kOwn ? LabelsAs::kTokens
                           : encoding.has_names()                       ? LabelsAs::kNames
                                                                        : LabelsAs::kClasses;
  const LabelsAs targets = encoding.reconstructs ? LabelsAs::kFeatures : LabelsAs::kTargets;
  return {.labels = encoding.label_kind == LabelKind::kTarget ? targets : classes,
          .predicts = predicts,
          .seed = seed,
          .eval = true,
          .feature_names = encoding.feature_names,
          .label_name = encoding.label_name,
          .feature_count = encoding.texts ? 0 : encoding.feature_shape.elements(),
          .normalized = encoding.normalizes_features(),
          .masking = encoding.masking,
          .images = encoding.images.value_or(ImageReading{}),
          .ignore_index = encoding.ignore_index};
}

// Offsets (narrowing.h) of rows to predict: the centers of large columns, so that a row is the same in every file.
std::vector<double> offsets_of(const Encoding& encoding, double scale) {
  if (!encoding.normalizes_features()) return {};
  std::vector<double> offsets = encoding.center;
  for (double& offset : offsets) offset = offset_for(offset / scale);
  return offsets;
}

Encoding encoding_of(const Storage& train) {
  Encoding encoding;
  encoding.feature_shape = train.feature_shape;
  encoding.vocabulary = train.vocabulary;
  encoding.sequence = train.sequence;
  encoding.more_inputs = train.further_inputs();
  encoding.label_kind = train.label_kind;
  encoding.outputs = train.outputs;
  encoding.reconstructs = train.targets_are_features;
  encoding.token_labels = train.token_labels;
  if (train.masker) encoding.masking = train.masker->masking();
  encoding.class_names = train.class_names;
  encoding.feature_names = train.feature_names;
  encoding.label_name = train.label_name;
  return encoding;
}

ImageReading image_reading_of(const schema::DataSpec& spec) {
  return {
      .resize = spec.resize, .center_crop = spec.center_crop, .skips_damaged = spec.damaged == schema::Damaged::kSkip};
}

// A class that only one of two folders has is a misnamed or forgotten folder.
void check_same_folders(const Storage& train, const Storage& eval) {
  std::vector<std::string> differences;
  const auto add = [&](const Storage& here, const Storage& there, const char* name) {
    for (const std::string& folder : here.class_names)
      if (!std::ranges::binary_search(there.class_names, folder))
        differences.push_back(fmt::format("{} (only in {})", in_quotes(folder), name));
  };
  add(train, eval, "data.train");
  add(eval, train, "data.eval");
  RUN_CHECK(differences.empty(), ErrorKind::kData, "data.train and data.eval have different class folders: {}",
            fmt::join(differences, ", "));
}

// The sections of a recipe as read.
struct Sections {
  std::shared_ptr<Storage> train, eval;  // the same if a split divides the rows; eval: null without evaluation data
  Parts rows = {};                       // of a split; empty: all
  Encoding encoding;
  std::vector<DataFile> files;
  ReadOptions options;  // of the training data

  // The storage of the evaluation data, if it is another one; else null.
  Storage* other() const { return eval != train ? eval.get() : nullptr; }
};

// Divides the training data. The parts of a text have storages of their own, those of other data have different rows.
void split_train(Sections& sections, const schema::DataSpec& spec, uint64_t seed) {
  if (!sections.train->is_windowed()) {
    sections.rows = split(sections.train->samples, spec.split->eval, seed);
    sections.eval = sections.train;
    return;
  }
  TextParts parts = split_text(std::move(*sections.train), spec.split->eval, main_path(spec.train));
  *sections.train = std::move(parts.train);
  sections.eval = std::make_shared<Storage>(std::move(parts.eval));
}

template <class T>
void append(std::vector<T>& all, std::vector<T> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// How a section becomes tokens, if it is text: data.tokens, or the tokenizer of its own.
std::optional<schema::TokensSpec> tokens_of(const schema::DatasetSpec& section,
                                            const std::optional<schema::TokensSpec>& tokens) {
  if (section.planned_samples) return std::nullopt;
  if (section.format != schema::DataFormat::kText || !has_tokenizer(section)) return tokens;
  return schema::TokensSpec{.tokenizer = section.tokens, .padding = schema::TokenPadding::kMaxLength};
}

// Returns the files of the tokenizer of the training data with their stamps.
std::vector<DataFile> tokenizer_files_of(const schema::DataSpec& spec) {
  const std::optional<schema::TokensSpec> tokens = tokens_of(spec.train, spec.tokens);
  std::vector<DataFile> files;
  if (!tokens) return files;
  const char* const key =
      spec.train.format == schema::DataFormat::kText ? "data.train.tokens" : "data.tokens.tokenizer";
  for (const std::string& path : paths_of_tokenizer(tokens->tokenizer)) {
    const std::string name = std::filesystem::path(path).filename().string();
    files.push_back({files.empty() ? key : fmt::format("{}/{}", key, name), path, stamp_of(path)});
  }
  return files;
}

// Opens the tokenizer. `known`: encoding of the run, or null.
std::optional<TextTokenizer> tokenizer_of(const std::optional<schema::TokensSpec>& tokens, const Encoding* known) {
  if (!tokens) return std::nullopt;
  return std::make_optional<TextTokenizer>(*tokens, known != nullptr && known->texts ? &*known->texts : nullptr);
}

// Completes the encoding of texts: the vocabulary of a tokenizer of characters has those of both sections, or is that
// of the run.
void encode_texts(Sections& sections, const TextTokenizer& tokenizer, const Encoding* known) {
  Encoding& encoding = sections.encoding;
  encoding.texts = tokenizer.encoding();
  std::vector<std::string>& characters = encoding.texts->characters;
  characters = sections.train->rows->characters;
  if (known != nullptr && known->texts)
    characters = known->texts->characters;
  else if (const Storage* const other = sections.other())
    characters = merge_characters(characters, other->rows->characters);
  use_characters(*sections.train->rows, characters, "data.train");
  if (Storage* const other = sections.other()) use_characters(*other->rows, characters, "data.eval");
  if (!characters.empty()) encoding.vocabulary = std::ssize(characters);
  if (encoding.predicts_tokens()) encoding.outputs = encoding.vocabulary;
}

Sections read_sections(const schema::DataSpec& spec, uint64_t seed, LabelsAs labels,
                       std::optional<int64_t> ignore_index, const Encoding* known, bool has_recipe,
                       const std::optional<Masking>& masking) {
  const int64_t buffer = spec.stream ? spec.shuffle_buffer : 0;
  const std::optional<TextTokenizer> tokenizer = tokenizer_of(tokens_of(spec.train, spec.tokens), known);
  Sections sections;
  sections.options = {
      .labels = labels,
      .seed = seed,
      .has_recipe = has_recipe,
      .normalized = spec.normalize == schema::Normalize::kStandard || spec.normalize == schema::Normalize::kMinMax,
      .tokenizer = tokenizer ? &*tokenizer : nullptr,
      .masking = masking,
      .images = image_reading_of(spec),
      .ignore_index = ignore_index};
  sections.train = std::make_shared<Storage>(read(spec.train, sections.options, buffer, "data.train"));
  sections.files = sections.train->files;
  Encoding& encoding = sections.encoding = encoding_of(*sections.train);
  encoding.normalize = spec.normalize;
  if (spec.train.format == schema::DataFormat::kImages) encoding.images = sections.options.images;
  if (spec.eval.has_value()) {
    const bool is_text = spec.train.format == schema::DataFormat::kText && spec.eval->format == spec.train.format;
    RUN_CHECK(!is_text || spec.eval->tokens == spec.train.tokens, ErrorKind::kRecipe,
              "data.eval.tokens is {}, but data.train.tokens is {}", spec.eval->tokens, spec.train.tokens);
    ReadOptions options = same_as(encoding, seed, false);
    options.tokenizer = sections.options.tokenizer;
    options.ignore_index = ignore_index;
    sections.eval = std::make_shared<Storage>(read(*spec.eval, options, buffer, "data.eval"));
    append(sections.files, sections.eval->files);
    about_key("data.eval", [&] {
      check_encoding(*sections.eval, encoding, "data.eval");
      if (encoding.images) check_same_folders(*sections.train, *sections.eval);
    });
    encoding.vocabulary = std::max(encoding.vocabulary, sections.eval->vocabulary);
    if (encoding.predicts_tokens()) merge_vocabularies(encoding, *sections.train, *sections.eval);
  } else if (spec.split.has_value()) {
    about_key("data.split", [&] { split_train(sections, spec, seed); });
  }
  append(sections.files, tokenizer_files_of(spec));
  if (sections.train->rows)
    encode_texts(sections, *tokenizer, known);
  else if (tokenizer)
    encoding.texts = tokenizer->encoding();
  sections.options.tokenizer = nullptr;
  return sections;
}

// Counts the samples by class. Appends warnings about the classes. Throws Error(kData) if a new run's data.eval has no
// class of data.train.
std::vector<int64_t> count_classes(const Sections& sections, bool is_new, bool are_declared,
                                   std::vector<std::string>& warnings) {
  const auto& [train, eval, rows, encoding, files, options] = sections;
  if (train->label_counts.empty()) return {};
  std::vector<int64_t> counts = class_counts(*train, encoding, rows.train);
  append(warnings, label_warnings(encoding, *train));
  if (are_declared)
    if (auto text = declared_class_warning(encoding, counts)) warnings.push_back(std::move(*text));
  if (!eval) return counts;
  const std::vector<int64_t> of_eval = class_counts(*eval, encoding, rows.eval);
  if (eval != train && is_new)
    about_key("data.eval", [&, &known = encoding] { check_common_classes(known, counts, of_eval); });
  append(warnings, class_warnings(encoding, counts, of_eval, eval == train));
  return counts;
}

// Computes the statistics of the training part and replaces missing values.
void fit(Sections& sections, const schema::DataSpec& spec) {
  const LargeArray<int32_t>& rows = sections.rows.train;
  const auto fills = [](const schema::DatasetSpec& section) { return section.missing == schema::Missing::kMean; };
  if (fills(spec.train) || (spec.eval && fills(*spec.eval))) {
    fit_fill(sections.encoding, *sections.train, rows, main_path(spec.train), sections.options);
    fill_missing(*sections.train, sections.encoding, "data.train");
    if (Storage* const eval = sections.other()) fill_missing(*eval, sections.encoding, "data.eval");
  }
  fit_normalization(sections.encoding, *sections.train, rows, {spec.mean, spec.std}, sections.options);
}

float largest_magnitude(std::span<const float> values) {
  uint32_t most = 0;  // without the sign, the bits of finite f32 are in the order of their values; integers vectorise
  for (const float value : values) most = std::max(most, std::bit_cast<uint32_t>(value) & 0x7fffffffU);
  return std::bit_cast<float>(most);
}

// Whether every row is finite after normalisation, judged by the extremes of all its features. Normalisation is
// monotonic.
bool extremes_fit(const Dataset& set, const Storage& storage) {
  const float most = storage.values.empty() ? 255 * storage.scale : largest_magnitude(storage.values);
  return std::ranges::all_of(std::array{storage.values.empty() ? 0 : -most, most}, [&](float value) {
    std::vector<float> row(static_cast<size_t>(storage.width()), value);
    set.normalize(row);
    return !set.overflow(row);
  });
}

// Refuses rows whose features are not finite after normalisation (refuse_row). Those of a stream are checked when they
// are read.
void check_normalized(const Dataset& set, Storage& storage, bool predicts) {
  const bool has_rows = !storage.values.empty() || !storage.bytes.empty();
  if (!has_rows || extremes_fit(set, storage)) return;
  std::vector<float> row(static_cast<size_t>(storage.width()));
  for (int64_t i = 0; i < storage.samples; ++i) {
    storage.read_row(i, row);
    set.normalize(row);
    const std::optional<size_t> feature = set.overflow(row);
    if (!feature) continue;
    storage.read_row(i, row);
    refuse_row(storage, predicts, i, *feature, set.overflow_text(row[*feature], *feature), set.source());
  }
}

// Returns which labels a recipe needs. `known`: as in load().
LabelsAs needed_labels(const schema::DataSpec& spec, LabelsAs labels, const Encoding* known) {
  if (spec.train.reconstructs) return LabelsAs::kFeatures;
  if (labels == LabelsAs::kAuto && !spec.classes.empty()) return LabelsAs::kClasses;
  if (labels != LabelsAs::kAuto || known == nullptr) return labels;
  return known->label_kind == LabelKind::kTarget ? LabelsAs::kTargets : LabelsAs::kClasses;
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

// Tokens are the labels if the objective says so, or if the model can predict nothing else.
LabelsAs labels_of(const schema::Recipe& recipe) {
  const schema::ModelSpec& model = recipe.model;
  const schema::DatasetSpec& train = recipe.data.train;
  const bool are_arrays = train.format == schema::DataFormat::kNpy || train.format == schema::DataFormat::kSafetensors;
  if (!are_arrays && !has_text_rows(train)) return labels_as(recipe.train);
  const std::optional<schema::Objective>& objective = recipe.train.objective;
  if (masking_of(recipe.train)) return LabelsAs::kTokens;
  if (objective || schema::predicts_next_token(model.type)) return LabelsAs::kNextTokens;
  const bool fills_in = model.type == schema::ModelType::kEncoder && model.head == schema::ModelHead::kMaskedLm;
  return fills_in && are_arrays ? LabelsAs::kTokens : labels_as(recipe.train);
}

std::optional<Masking> masking_of(const schema::TrainSpec& train) {
  if (!train.objective || train.objective->type != schema::ObjectiveType::kMaskedLm) return std::nullopt;
  return Masking{.probability = train.objective->probability, .whole_word = train.objective->whole_word};
}

Data load(const schema::DataSpec& spec, uint64_t seed, LabelsAs labels, std::optional<int64_t> ignore_index,
          const Encoding* known, bool has_recipe, const std::optional<Masking>& masking) {
  Sections sections =
      read_sections(spec, seed, needed_labels(spec, labels, known), ignore_index, known, has_recipe, masking);
  // Arrays that are prepared for transformers mark what has no label with kNoLabel.
  const bool is_prepared = !sections.train->tokens.empty() && sections.train->label_kind == LabelKind::kClass;
  if (is_prepared && !ignore_index) ignore_index = kNoLabel;
  encode_labels(sections.encoding, *sections.train, sections.other(), ignore_index, spec.classes, known);
  std::vector<std::string> warnings;
  std::vector<int64_t> counts = count_classes(sections, known == nullptr, !spec.classes.empty(), warnings);
  fit(sections, spec);

  const bool has_other = sections.other() != nullptr;
  auto& [train, eval, rows, encoding, files, options] = sections;
  Dataset train_set("data.train", train, std::move(rows.train), encoding);
  std::optional<Dataset> eval_set;
  if (eval) eval_set.emplace("data.eval", eval, std::move(rows.eval), encoding);
  if (encoding.normalize != schema::Normalize::kNone) {
    check_normalized(train_set, *train, false);
    if (has_other) check_normalized(*eval_set, *eval, false);
  }
  append(warnings, train_set.warnings());
  if (has_other) append(warnings, eval_set->warnings());
  std::shared_ptr<const Augmenter> augmenter = augmenter_of(train_set, spec.train);
  return {std::move(encoding), std::move(train_set), std::move(eval_set), std::move(warnings),
          std::move(files),    std::move(augmenter), std::move(counts)};
}

std::optional<int64_t> known_samples(const schema::DataSpec& spec) {
  const DataFormatDef& format = definition_of(spec.train.format);
  if (format.sample_count == nullptr) return std::nullopt;
  const int64_t samples = format.sample_count(spec.train);
  return samples - held_out_of(samples, spec.split ? spec.split->eval : 0);
}

namespace {

// Labels that are tokens must be in the vocabulary, or ignored.
void check_token_labels(const Dataset& set, const Encoding& encoding) {
  const Storage& storage = set.storage();
  if (storage.token_labels == TokenLabels::kNone) return;
  const auto is_label = [&](int64_t id) { return id == kNoLabel || (id >= 0 && id < encoding.outputs); };
  const auto wrong = std::ranges::find_if_not(storage.classes, is_label);
  RUN_CHECK(wrong == storage.classes.end(), ErrorKind::kData,
            "{}: sample {}: the label {} is no token: expected 0 to {}, or {} for a token without label", set.name(),
            (wrong - storage.classes.begin()) / storage.sequence, *wrong, encoding.outputs - 1,
            encoding.ignore_index.value_or(kNoLabel));
}

// Targets of a loss of probabilities. Those of a stream are not in memory, and synthetic ones are any numbers.
void check_probabilities(const Dataset& set, schema::Loss loss, const ReadOptions& options) {
  const LargeArray<float>& targets = set.storage().targets;
  const auto wrong = std::ranges::find_if(targets, [](float target) { return !(target >= 0 && target <= 1); });
  RUN_CHECK(wrong == targets.end(), ErrorKind::kData, "{}: train.loss: {} needs targets from 0 to 1, got {}{}",
            set.name(), name_of(loss), *wrong,
            options.remedy(fmt::format("; for classes, remove train.task and use {}",
                                       schema::losses_for(schema::Labels::kClasses)),
                           ""));
}

}  // namespace

Data load(const schema::Recipe& recipe, const Encoding* known, bool has_recipe, WithoutFiles without) {
  const schema::TrainSpec& train = recipe.train;
  schema::DataSpec spec = recipe.data;
  if (without == WithoutFiles::kFail || has_files(spec.train.path)) {
    spec.train.planned_samples.reset();
    if (spec.eval) spec.eval->planned_samples.reset();
  }
  Data data = about_key("data.train", [&] {
    try {
      return load(spec, data_seed(recipe), labels_of(recipe), train.ignore_index, known, has_recipe, masking_of(train));
    } catch (const std::bad_alloc&) {
      throw out_of_memory(ErrorKind::kData, " while the data were read",
                          "use a part of the data, or data.stream: true if their format can be streamed");
    }
  });
  if (!data.train.storage().tokens.empty()) {  // prepared arrays do not say how many tokens there are
    data.encoding.vocabulary = std::max(data.encoding.vocabulary, recipe.model.vocabulary.value_or(0));
    if (data.encoding.predicts_tokens()) data.encoding.outputs = data.encoding.vocabulary;
    check_token_labels(data.train, data.encoding);
    if (data.eval) check_token_labels(*data.eval, data.encoding);
  }
  // Rows of the model's embedding that no token has are outputs, but never labels.
  if (data.encoding.predicts_tokens() && recipe.model.vocabulary)
    data.encoding.outputs = std::max(data.encoding.outputs, *recipe.model.vocabulary);
  if (train.class_weights.balanced && data.encoding.label_kind == LabelKind::kClass)
    data.encoding.balanced_weights = balanced_weights(
        data.class_counts.empty() ? data.train.count_classes(data.encoding.ignored_label) : data.class_counts);
  if (schema::facts_of(train.loss).needs_probabilities) {
    const ReadOptions options{.has_recipe = has_recipe};
    about_key("data.train", [&] { check_probabilities(data.train, train.loss, options); });
    if (data.eval) about_key("data.eval", [&] { check_probabilities(*data.eval, train.loss, options); });
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
                     bool predicts, int64_t shuffle_buffer, const std::optional<schema::TokensSpec>& tokens) {
  schema::DatasetSpec file = spec;
  file.planned_samples.reset();
  const std::optional<TextTokenizer> tokenizer = tokenizer_of(tokens_of(file, tokens), &encoding);
  if (predicts) file.missing = encoding.fill.empty() ? schema::Missing::kError : schema::Missing::kMean;
  ReadOptions options = same_as(encoding, seed, predicts);
  options.has_recipe = false;
  options.tokenizer = tokenizer ? &*tokenizer : nullptr;
  if (predicts) options.offsets = offsets_of(encoding, spec.scale.value_or(1));
  auto storage = std::make_shared<Storage>(read(file, options, shuffle_buffer, name));
  check_encoding(*storage, encoding, name);
  RUN_CHECK(storage->tokens.empty() || storage->vocabulary <= encoding.vocabulary, ErrorKind::kData,
            "{}: token ids go up to {}, but the model of the run has {} tokens", name, storage->vocabulary - 1,
            encoding.vocabulary);
  if (storage->rows) use_characters(*storage->rows, encoding.texts->characters, name);
  storage->token_labels != TokenLabels::kNone ? use_vocabulary(*storage, encoding.class_names, name)
                                              : use_classes(*storage, encoding, name);
  fill_missing(*storage, encoding, name);
  Dataset set(std::move(name), storage, {}, encoding);
  check_token_labels(set, encoding);
  if (encoding.normalize != schema::Normalize::kNone) check_normalized(set, *storage, predicts);
  return set;
}

}  // namespace runner::data
