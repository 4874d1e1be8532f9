// From the `data:` section of a recipe to data sets.
//
// Every message of a damaged or unsuitable file names the file, the row or byte, what was found and what was expected
// (Error(kData)).  Sizes that a header claims are checked against the file before memory is asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/dataset.h"
#include "runner/data/encoding.h"
#include "schema/recipe.h"

namespace runner::data {

struct Data {
  Encoding encoding;
  Dataset train;
  std::optional<Dataset> eval;
  std::vector<std::string> warnings = {};  // of the files that were read
};

using SharedData = std::shared_ptr<const Data>;

// What labels have to be; kAuto: integers and texts are classes, other numbers are targets; kNames: all are texts.
enum class LabelsAs { kAuto, kClasses, kTargets, kNames };
LabelsAs labels_as(schema::Loss loss);

// Reads data.train and data.eval, or splits train: exactly round(N * split_eval) samples are held out, those with the
// smallest Philox hash of (seed, index), of a text its end; both parts keep the file's order.  Statistics are of the
// training part alone.
Data load(const schema::DataSpec& spec, uint64_t seed, LabelsAs labels = LabelsAs::kAuto);

// How many samples the training part will have, where the recipe alone says so: of synthetic data.
std::optional<int64_t> known_samples(const schema::DataSpec& spec);

// The same as load() for a recipe, with the seed of its data and the labels that its loss wants.
Data load(const schema::Recipe& recipe);
// data.seed, by default the recipe's seed.
uint64_t data_seed(const schema::Recipe& recipe);

// Reads another file as `encoding` says (runner eval, runner predict).  Its features must have the shape of the
// encoding (Error(kData) with both shapes) and its classes must be known.  labels_required false: a file without labels
// gives LabelKind::kNone.  name: for messages; `seed` matters for synthetic data alone.  shuffle_buffer: 0, or that of
// a csv file to leave where it is.
Dataset load_encoded(const schema::DatasetSpec& spec, const Encoding& encoding, uint64_t seed, std::string name,
                     bool labels_required, int64_t shuffle_buffer = 0);

}  // namespace runner::data
