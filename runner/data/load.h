// Loads the data sets of a recipe's `data:` section.
//
// Every error about a damaged or unsuitable file is an Error(kData). It names the file, the row or byte, what was found
// and what was expected. Sizes in a header are checked against the file size before allocating.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/augment.h"
#include "runner/data/data_file.h"
#include "runner/data/dataset.h"
#include "runner/data/encoding.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

struct Data {
  Encoding encoding;
  Dataset train;
  std::optional<Dataset> eval;
  std::vector<std::string> warnings = {};  // about the files read
  std::vector<DataFile> files = {};
  std::shared_ptr<const Augmenter> augmenter = nullptr;  // data.train.augment; null if there is none
  std::vector<int64_t> class_counts = {};  // samples by class in the training part; empty for text and synthetic data
};

using SharedData = std::shared_ptr<const Data>;

// Required kind of labels. kAuto: texts and, as are_classes() says, whole numbers are classes; other numbers are
// targets. kNames: class names. kFeatures: labels are not read; the targets are the normalised features. kNextTokens,
// kTokens: as TokenLabels::kNext and kOwn; data without tokens are read as with kAuto.
enum class LabelsAs { kAuto, kClasses, kTargets, kNames, kFeatures, kNextTokens, kTokens };
constexpr bool are_tokens(LabelsAs labels) {
  return labels == LabelsAs::kNextTokens || labels == LabelsAs::kTokens;
}
// Whether rows of a table have a label column.
constexpr bool have_labels(LabelsAs labels) {
  return labels != LabelsAs::kFeatures && !are_tokens(labels);
}
// Returns what train.task requires, or else the loss.
LabelsAs labels_as(const schema::TrainSpec& train);
// Returns how train.objective masks tokens; none if it does not.
std::optional<Masking> masking_of(const schema::TrainSpec& train);

// Reads data.train and data.eval, or splits data.train. The eval part of a split has exactly round(N * split.eval)
// samples: those with the smallest Philox hash of (seed, index), or the end of a text. Both parts keep the order of the
// file. Statistics are computed from the training part only. `known`: encoding of the run that is continued; its
// classes are kept if they include all labels. Null: none. `has_recipe`: as in ReadOptions. `masking`: of a text with a
// tokenizer.
Data load(const schema::DataSpec& spec, uint64_t seed, LabelsAs labels = LabelsAs::kAuto,
          std::optional<int64_t> ignore_index = std::nullopt, const Encoding* known = nullptr, bool has_recipe = true,
          const std::optional<Masking>& masking = std::nullopt);

// Returns the number of training samples if the recipe determines it (DataFormatDef::sample_count).
std::optional<int64_t> known_samples(const schema::DataSpec& spec);

// What to do if the file of data.train does not exist: fail, or plan with data.train.planned_samples, if it is set.
enum class WithoutFiles { kFail, kPlan };
// As above, with the data seed of the recipe, its objective, and the kind of labels that its loss requires.
Data load(const schema::Recipe& recipe, const Encoding* known = nullptr, bool has_recipe = true,
          WithoutFiles without = WithoutFiles::kFail);
// Returns the encoding of a run's checkpoint with the members that older versions did not store: they ignored the class
// with the number train.ignore_index.
Encoding completed(Encoding encoding, const schema::TrainSpec& train);
// Returns data.seed, which defaults to the recipe's seed.
uint64_t data_seed(const schema::Recipe& recipe);

// Reads another file with the encoding of the training data (for `runner eval` and `runner predict`).
//
// - `seed`: used by synthetic data only.
// - `name`: for messages.
// - `predicts`: labels are neither needed nor read, missing values are filled if the training data's were, and rows
//   that cannot be used stay (Storage::rejected).
// - `shuffle_buffer`: 0 to read into memory, or the size of the shuffle buffer of a stream.
// - `tokens`: data.tokens of the run.
//
// Throws Error(kData) if the feature shape differs from the encoding's, or if a class is unknown.
Dataset load_encoded(const schema::DatasetSpec& spec, const Encoding& encoding, uint64_t seed, std::string name,
                     bool predicts = false, int64_t shuffle_buffer = 0,
                     const std::optional<schema::TokensSpec>& tokens = std::nullopt);

}  // namespace runner::data
