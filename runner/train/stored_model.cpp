#include "runner/train/stored_model.h"

#include "runner/data/safetensors.h"
#include "runner/train/evaluator.h"
#include "schema/error.h"

namespace runner::train {
namespace {

// The data of the recipe that a file for evaluation is like.
schema::DatasetSpec like(const schema::Recipe& recipe) {
  return recipe.data.eval ? *recipe.data.eval : recipe.data.train;
}

bool has_two_files(schema::DataFormat format) {
  return format == schema::DataFormat::kIdx || format == schema::DataFormat::kNpy;
}

uint64_t seed_of(const schema::Recipe& recipe) {
  return static_cast<uint64_t>(recipe.data.seed.value_or(recipe.seed));
}

}  // namespace

StoredModel::StoredModel(const schema::Recipe& recipe, const store::LoadedState& state)
    : recipe_(recipe),
      encoding_(run_state_of(state).encoding),
      device_(backends::make_cpu_device(static_cast<int>(recipe.threads))) {
  recipe_.model.init_from.clear();  // the state has the weights
  trainer_ = std::make_unique<Trainer>(recipe_, encoding_, *device_);
  restore(state, *trainer_);
}

StoredModel::~StoredModel() = default;

data::Dataset StoredModel::read(const std::string& file, bool labels_required) const {
  schema::DatasetSpec spec = like(recipe_);
  const size_t comma = file.find(',');
  RUN_CHECK(spec.format != schema::DataFormat::kSynthetic, ErrorKind::kUsage,
            "the run's data is synthetic; it has no file format to read {} in", file);
  if (!has_two_files(spec.format)) {
    spec.path = file;
  } else {
    spec.features_file = file.substr(0, comma);
    spec.labels_file = comma == std::string::npos ? "" : file.substr(comma + 1);
    RUN_CHECK(!labels_required || !spec.labels_file.empty(), ErrorKind::kUsage,
              "{} has no labels; give two files: FEATURES,LABELS", file);
  }
  return data::load_encoded(spec, encoding_, seed_of(recipe_), file, labels_required);
}

std::map<std::string, double> StoredModel::evaluate(const std::string& file) {
  if (!file.empty()) {
    const data::Dataset dataset = read(file, true);
    return Evaluator(*trainer_, dataset, recipe_).run();
  }
  const data::Data data = data::load(recipe_.data, seed_of(recipe_), data::labels_as(recipe_.train.loss));
  RUN_CHECK(data.eval, ErrorKind::kUsage, "the run has no evaluation data; name a file: runner eval RUN DATA");
  return Evaluator(*trainer_, *data.eval, recipe_).run();
}

Prediction StoredModel::predict(const std::string& file) {
  const data::Dataset dataset = read(file, false);
  Prediction prediction{.samples = dataset.size(),
                        .outputs = encoding_.outputs,
                        .values = Evaluator(*trainer_, dataset, recipe_).predict(),
                        .kind = encoding_.label_kind,
                        .class_names = encoding_.class_names};
  return prediction;
}

void export_model(const store::LoadedState& state, const std::string& file) {
  std::vector<data::NamedTensor> tensors;
  for (const StoredParameter& parameter : parameters_of(state))
    tensors.push_back({parameter.name, backends::DType::kF32, parameter.shape, parameter.values});
  data::write_safetensors(file, std::move(tensors));
}

}  // namespace runner::train
