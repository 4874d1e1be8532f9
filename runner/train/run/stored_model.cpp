#include "runner/train/run/stored_model.h"

#include "backends/exec/cpu_device.h"
#include "runner/formats/model_files.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "runner/train/run/checkpoint/sections.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// The data section of the recipe whose format an evaluation file must have.
schema::DatasetSpec like(const schema::Recipe& recipe) {
  return recipe.data.eval ? *recipe.data.eval : recipe.data.train;
}

bool has_two_files(schema::DataFormat format) {
  return format == schema::DataFormat::kIdx || format == schema::DataFormat::kNpy;
}

}  // namespace

StoredModel::StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state)
    : StoredModel(recipe, std::move(hooks), state, checkpoint_of(state)) {}

StoredModel::StoredModel(const schema::Recipe& recipe, std::unique_ptr<Hooks> hooks, const store::LoadedState& state,
                         Checkpoint run)
    : recipe_(recipe),
      encoding_(data::completed(std::move(run.encoding), recipe.train)),
      train_data_(std::move(run.train_data)),
      eval_data_(std::move(run.eval_data)),
      hooks_(std::move(hooks)),
      device_(backends::make_cpu_device(static_cast<int>(recipe.threads), recipe.cpu.memory)) {
  recipe_.model.init_from.clear();  // the checkpoint has the weights
  trainer_ = std::make_unique<Trainer>(recipe_, encoding_, device_, hooks_.get());
  trainer_->allocate();
  trainer_->accumulation.max_micro_batch = run.max_micro_batch;
  restore(state, *trainer_);
}

StoredModel::~StoredModel() = default;

data::Dataset StoredModel::read(const std::string& file, bool labels_required) const {
  schema::DatasetSpec spec = like(recipe_);
  const size_t comma = file.find(',');
  RUN_CHECK(spec.format != schema::DataFormat::kSynthetic, ErrorKind::kUsage,
            "the run's data is synthetic, so it has no file format to read {} with", file);
  if (!has_two_files(spec.format)) {
    spec.path = file;
  } else {
    spec.features_file = file.substr(0, comma);
    spec.labels_file = comma == std::string::npos ? "" : file.substr(comma + 1);
    RUN_CHECK(!labels_required || !spec.labels_file.empty(), ErrorKind::kUsage,
              "{} has no labels; give two files: FEATURES,LABELS", file);
  }
  return data::load_encoded(spec, encoding_, data::data_seed(recipe_), file, labels_required);
}

data::Dataset StoredModel::evaluation_data() const {
  constexpr const char* kRemedy = "restore the data, or give a file: `runner eval RUN DATA`";
  if (recipe_.data.eval) {
    data::Dataset eval = data::load_encoded(*recipe_.data.eval, encoding_, data::data_seed(recipe_), "data.eval", true,
                                            recipe_.data.stream ? recipe_.data.shuffle_buffer : 0);
    check_data("data.eval", eval_data_, eval.fingerprint().to_string(), kRemedy);
    return eval;
  }
  RUN_CHECK(recipe_.data.split, ErrorKind::kUsage,
            "the run has no evaluation data; give a file: `runner eval RUN DATA`");
  data::Data data = data::load(recipe_, &encoding_);
  check_data("data.train", train_data_, data.train.fingerprint().to_string(), kRemedy);
  return std::move(*data.eval);
}

std::map<std::string, double> StoredModel::evaluate(const std::string& file) {
  const data::Dataset dataset = file.empty() ? evaluation_data() : read(file, true);
  warnings_ = dataset.warnings();
  Evaluator evaluator(*trainer_, dataset, recipe_, hooks_.get());
  std::map<std::string, double> metrics = evaluator.run();
  for (const auto& text : {evaluator.warning_of_nan(), evaluator.warning_of_loss()})
    if (text) warnings_.push_back(*text);
  return metrics;
}

Prediction StoredModel::predict(const std::string& file) {
  RUN_CHECK(encoding_.sequence == 0, ErrorKind::kUsage,
            "predict writes one row of outputs per sample, but the run was trained on text, which has outputs per "
            "token; use `runner eval` for its metrics");
  const data::Dataset dataset = read(file, false);
  warnings_ = dataset.warnings();
  Prediction prediction{.samples = dataset.size(),
                        .outputs = encoding_.outputs,
                        .values = Evaluator(*trainer_, dataset, recipe_, nullptr).predict(),
                        .kind = encoding_.label_kind,
                        .class_names = encoding_.class_names};
  return prediction;
}

std::vector<std::string> export_model(const store::LoadedState& state, const std::string& file,
                                      int64_t max_shard_size) {
  std::vector<formats::NamedTensor> tensors;
  for (const StoredParameter& parameter : parameters_of(state))
    tensors.push_back({parameter.name, backends::DType::kF32, parameter.shape, parameter.values});
  return formats::write_model(file, std::move(tensors), max_shard_size);
}

}  // namespace runner::train
