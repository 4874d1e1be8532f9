// A model loaded from a checkpoint in the store, for `eval`, `predict` and `export --model`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/data/storage.h"
#include "runner/train/loop/checkpoint.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/loop/generation.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/run_stand_in.h"
#include "schema/recipe/recipe.h"
#include "store/state_store.h"

namespace runner::train {

class Trainer;

// What `predict` computes of the outputs of a model.
enum class OutputsAs { kLogits, kProbabilities, kClasses, kTargets };

struct Prediction {
  int64_t samples = 0, outputs = 0;
  OutputsAs as = OutputsAs::kLogits;
  std::vector<float> values;  // as Outputs::values: logits, or what was asked for; logits with kClasses
  int64_t length = 0;         // as in Outputs, like tokens
  std::vector<Outputs::Token> tokens;
  std::vector<std::string> names;  // (outputs): names or numbers of the classes, or names of the targets
  bool has_classes = false;        // each output belongs to a class
  std::vector<std::string> files;  // (samples): files of the samples, of format images; else empty
  // Rows of the file, ascending, that the model cannot be given. Their values are NaN.
  std::vector<data::RejectedRow> rejected;

  // Number of samples, or of tokens, with outputs, and the outputs of one of them.
  int64_t size() const { return std::ssize(values) / outputs; }
  std::span<const float> at(int64_t place) const;
  std::span<float> at(int64_t place);
  // Why a row has no prediction; empty if it has one.
  std::string reason(int64_t row) const;
  bool has_tokens() const { return length > 0; }
};

class StoredModel {
 public:
  // `recipe` and `hooks` (null: none) are those of the run. `state`: all of it, or the sections of is_of_evaluation().
  // `print`: for texts that its hook prints. Throws Error(kStore) if checkpoint and recipe do not match.
  StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state,
              Print print = nullptr);
  ~StoredModel();

  // Returns the recipe's metrics on labelled data. `file`: empty for the recipe's evaluation data. Throws Error(kUsage)
  // if there is none, and Error(kData) if it has changed since training or if the file does not fit the model.
  std::map<std::string, double> evaluate(const std::string& file);

  // Returns the outputs for every row of a file, in its order. Labels are not read. `as`: none for logits or targets.
  // Throws Error(kUsage) if the model has no such outputs, or predicts tokens, and Error(kData) if no row can be used.
  Prediction predict(const std::string& file, std::optional<OutputsAs> as);

  // Continues a text. `on_text`: see train::generate(). Throws Error(kUsage) if the model is no language model.
  Generated generate(const std::string& prompt, const GenerationSpec& spec,
                     const std::function<void(std::string_view part)>& on_text);

  // Warnings about the data read last, such as dropped rows.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Reads `file` (or two, "FEATURES,LABELS", for idx and npy) in the format of the recipe's data. `predicts`: as for
  // data::load_encoded().
  data::Dataset read(const std::string& file, bool predicts) const;

  StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state, Print print,
              Checkpoint run);
  data::Dataset evaluation_data() const;
  OutputsAs checked(std::optional<OutputsAs> as) const;
  std::vector<std::string> output_names() const;
  void warn_of_left_out_batches();

  schema::Recipe recipe_;
  data::Encoding encoding_;
  std::string train_data_, eval_data_;  // fingerprints
  const std::unique_ptr<Hooks> hooks_;
  const RunStandIn run_;
  backends::ModelledDevice device_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<std::string> warnings_;
};

}  // namespace runner::train
