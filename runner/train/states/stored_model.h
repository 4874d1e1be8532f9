// A model from a state of the store: what `eval`, `predict` and `export --model` work on.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/data/load.h"
#include "runner/train/states/checkpoint.h"
#include "schema/recipe.h"
#include "store/state_store.h"

namespace runner::train {

struct Prediction {
  int64_t samples = 0, outputs = 0;
  std::vector<float> values;                      // (samples, outputs): logits, or targets
  data::LabelKind kind = data::LabelKind::kNone;  // what the model was trained on
  std::vector<std::string> class_names;           // empty for integer classes and targets
};

class StoredModel {
 public:
  // `recipe` and `hooks` (null: none): those of the run.  Throws Error(kStore) where state and recipe do not fit each
  // other.
  StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state);
  ~StoredModel();

  // Metrics of the recipe on labelled data.  An empty `file` means the recipe's evaluation data: Error(kUsage) if it
  // has none, Error(kData) if it is not what it was when the run was trained.  Throws Error(kData) where the file does
  // not fit the model.
  std::map<std::string, double> evaluate(const std::string& file);

  // Outputs for every sample of a file, in its order; labels may be missing.
  Prediction predict(const std::string& file);

  // What had to be done to the data that evaluate or predict read last, such as rows that were dropped.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Reads `file` (or two, "FEATURES,LABELS", for idx and npy) in the format of the recipe's data.
  data::Dataset read(const std::string& file, bool labels_required) const;

  StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state,
              RunState run);
  data::Dataset evaluation_data() const;

  schema::Recipe recipe_;
  data::Encoding encoding_;
  std::string train_data_, eval_data_;  // fingerprints
  const std::unique_ptr<Hooks> hooks_;
  std::unique_ptr<backends::Device> device_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::string> warnings_;
};

// Writes a state's parameters under the model's names, in files that depend on the weights alone: those that
// formats::write_model makes of `file`, which are returned.
std::vector<std::string> export_model(const store::LoadedState& state, const std::string& file, int64_t max_shard_size);

}  // namespace runner::train
