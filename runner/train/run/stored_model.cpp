#include "runner/train/run/stored_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "backends/exec/cpu_device.h"
#include "runner/data/data_format.h"
#include "runner/data/image_files.h"
#include "runner/data/storage.h"
#include "runner/model/initial_weights.h"
#include "runner/train/engine/left_out_batches.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"
#include "schema/recipe/losses.h"

namespace runner::train {
namespace {

// The data section of the recipe whose format an evaluation file must have.
schema::DatasetSpec like(const schema::Recipe& recipe) {
  return recipe.data.eval ? *recipe.data.eval : recipe.data.train;
}

// Subtracts the largest logit first, so that no power is infinite.
void softmax(std::span<float> logits) {
  const float largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  for (float& value : logits) value = static_cast<float>(std::exp(double{value} - largest) / sum);
}

void sigmoid(std::span<float> logits) {
  for (float& value : logits) value = static_cast<float>(1 / (1 + std::exp(-double{value})));
}

// Undoes the normalisation of features.
void restore_units(std::span<float> features, const data::Encoding& encoding) {
  if (encoding.center.empty()) return;
  const size_t shared = encoding.features_per_statistic();
  for (size_t f = 0; f < features.size(); ++f)
    features[f] = static_cast<float>(double{features[f]} * encoding.spread[f / shared] + encoding.center[f / shared]);
}

// The files of the samples, of format images.
std::vector<std::string> image_paths(const data::Dataset& dataset) {
  std::vector<std::string> files;
  if (const auto& images = dataset.storage().image_files)
    for (int64_t id = 0; id < dataset.size(); ++id) files.push_back(images->path(dataset.row(id)));
  return files;
}

}  // namespace

StoredModel::StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state,
                         Print print)
    : StoredModel(recipe, std::move(hooks), state, std::move(print), checkpoint_of(state)) {}

StoredModel::StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state,
                         Print print, Checkpoint run)
    : recipe_(recipe),
      encoding_(data::completed(std::move(run.encoding), recipe.train)),
      train_data_(std::move(run.train_data)),
      eval_data_(std::move(run.eval_data)),
      hooks_(std::move(hooks)),
      run_(hooks_.get(), ended_run(run, std::move(print))),
      device_(backends::make_cpu_device(static_cast<int>(recipe.threads), recipe.cpu.memory)) {
  nn::read_no_weights(recipe_.model);  // the checkpoint has the weights
  recipe_.eval.batches.reset();        // which limits evaluations of the run, like the next two
  recipe_.eval.drop_last = false;
  recipe_.eval.pad_last = false;
  trainer_ = std::make_unique<Trainer>(recipe_, encoding_, device_, hooks_.get(), /*ranks=*/nullptr,
                                       Trainer::Purpose::kEvaluation);
  trainer_->allocate(FirstWeights::kNone);
  trainer_->accumulation.max_micro_batch = run.max_micro_batch;
  restore_evaluated(state, *trainer_);
}

StoredModel::~StoredModel() = default;

data::Dataset StoredModel::read(const std::string& file, bool predicts) const {
  schema::DatasetSpec spec = like(recipe_);
  data::set_paths(spec, file, predicts);
  return data::load_encoded(spec, encoding_, data::data_seed(recipe_), file, predicts, /*shuffle_buffer=*/0,
                            recipe_.data.tokens);
}

data::Dataset StoredModel::evaluation_data() const {
  constexpr const char* kRemedy = "restore the data, or give a file: `runner eval RUN DATA`";
  if (recipe_.data.eval) {
    data::Dataset eval = data::load_encoded(*recipe_.data.eval, encoding_, data::data_seed(recipe_), "data.eval", false,
                                            recipe_.data.stream ? recipe_.data.shuffle_buffer : 0, recipe_.data.tokens);
    check_data("data.eval", eval_data_, eval.fingerprint().to_string(), kRemedy);
    return eval;
  }
  RUN_CHECK(recipe_.data.split, ErrorKind::kUsage,
            "the run has no evaluation data; give a file: `runner eval RUN DATA`");
  data::Data data = data::load(recipe_, &encoding_, /*has_recipe=*/false);
  check_data("data.train", train_data_, data.train.fingerprint().to_string(), kRemedy);
  return std::move(*data.eval);
}

std::map<std::string, double> StoredModel::evaluate(const std::string& file) {
  const data::Dataset dataset = file.empty() ? evaluation_data() : read(file, false);
  warnings_ = dataset.warnings();
  Evaluator evaluator(*trainer_, dataset, recipe_, hooks_.get());
  std::map<std::string, double> metrics = evaluator.run();
  for (const auto& text : {evaluator.warning_of_nan(), evaluator.warning_of_loss()})
    if (text) warnings_.push_back(*text);
  warn_of_left_out_batches();
  return metrics;
}

void StoredModel::warn_of_left_out_batches() {
  if (auto text = warning_of_left_out_batches(trainer_->arrays(), trainer_->model().parameters))
    warnings_.push_back(std::move(*text));
}

std::span<const float> Prediction::at(int64_t place) const {
  return std::span(values).subspan(static_cast<size_t>(place * outputs), static_cast<size_t>(outputs));
}

std::span<float> Prediction::at(int64_t place) {
  return std::span(values).subspan(static_cast<size_t>(place * outputs), static_cast<size_t>(outputs));
}

std::string Prediction::reason(int64_t row) const {
  const auto found = std::ranges::lower_bound(rejected, row, {}, &data::RejectedRow::row);
  return found != rejected.end() && found->row == row ? found->reason : "";
}

OutputsAs StoredModel::checked(std::optional<OutputsAs> as) const {
  const bool has_classes = encoding_.label_kind == data::LabelKind::kClass;
  if (!as) return has_classes ? OutputsAs::kLogits : OutputsAs::kTargets;
  const bool is_binary = !has_classes && schema::facts_of(recipe_.train.loss).needs_probabilities;
  RUN_CHECK(has_classes || (is_binary && as != OutputsAs::kClasses), ErrorKind::kUsage,
            "the model of this run predicts numbers, so it has no classes or probabilities; remove --as");
  return *as;
}

std::vector<std::string> StoredModel::output_names() const {
  if (encoding_.label_kind == data::LabelKind::kClass) return encoding_.classes();
  if (encoding_.reconstructs && !encoding_.feature_names.empty()) return encoding_.feature_names;
  if (encoding_.outputs == 1 && !encoding_.label_name.empty()) return {encoding_.label_name};
  std::vector<std::string> names;
  for (int64_t i = 0; i < encoding_.outputs; ++i) names.push_back(fmt::format("target_{}", i));
  return names;
}

Prediction StoredModel::predict(const std::string& file, std::optional<OutputsAs> as) {
  RUN_CHECK(!encoding_.predicts_tokens(), ErrorKind::kUsage,
            "predict writes classes or numbers, but the model of this run predicts tokens; use `runner eval` for its "
            "metrics{}",
            encoding_.token_labels == data::TokenLabels::kNext ? ", or `runner generate` for texts" : "");
  const OutputsAs checked_as = checked(as);
  const data::Dataset dataset = read(file, true);
  warnings_ = dataset.warnings();
  Prediction prediction{.samples = dataset.size(),
                        .outputs = encoding_.outputs,
                        .as = checked_as,
                        .values = {},
                        .length = 0,
                        .tokens = {},
                        .names = output_names(),
                        .has_classes = encoding_.label_kind == data::LabelKind::kClass,
                        .files = image_paths(dataset),
                        .rejected = dataset.storage().rejected};
  const std::vector<data::RejectedRow>& rejected = prediction.rejected;
  RUN_CHECK(std::ssize(rejected) < prediction.samples, ErrorKind::kData, "{}: no row can be used; row {}: {}", file,
            rejected[0].row, rejected[0].reason);
  Outputs outputs = Evaluator(*trainer_, dataset, recipe_, nullptr).predict();
  prediction.values = std::move(outputs.values);
  prediction.length = outputs.length;
  prediction.tokens = std::move(outputs.tokens);
  RUN_ASSERT(rejected.empty() || !prediction.has_tokens());  // arrays have no rows to reject
  for (int64_t place = 0; place < prediction.size(); ++place) {
    const std::span<float> values = prediction.at(place);
    if (encoding_.reconstructs) restore_units(values, encoding_);
    if (checked_as == OutputsAs::kProbabilities) prediction.has_classes ? softmax(values) : sigmoid(values);
  }
  for (const data::RejectedRow& each : rejected)
    std::ranges::fill(prediction.at(each.row), std::numeric_limits<float>::quiet_NaN());
  warn_of_left_out_batches();
  if (!rejected.empty())
    warnings_.push_back(fmt::format("{}: {} of {} rows cannot be used; row {}: {}", file, rejected.size(),
                                    prediction.samples, rejected[0].row, rejected[0].reason));
  return prediction;
}

Generated StoredModel::generate(const std::string& prompt, const GenerationSpec& spec,
                                const std::function<void(std::string_view part)>& on_text) {
  NextToken model(trainer_->builder(), device_, evaluated_weights(*trainer_));
  const data::TextCodec codec(encoding_, recipe_.data);
  Generated made = train::generate(model, codec, prompt, spec, on_text);
  warnings_.clear();
  if (made.exceeds_context)
    warnings_.push_back(
        fmt::format("the text has {} tokens, but the context of the model is {}: the last tokens were computed from "
                    "the {} tokens before them only",
                    std::ssize(made.prompt) + std::ssize(made.tokens), model.context(), model.context()));
  return made;
}

}  // namespace runner::train
