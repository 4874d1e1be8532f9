#include "runner/data/synthetic.h"

#include <cmath>

#include <fmt/format.h>

#include "runner/data/data_format.h"
#include "runner/data/storage.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

constexpr size_t kTable = 65536;
constexpr uint32_t kLabelBlock = UINT32_MAX;  // beyond the blocks of the features

// Calls value(f, noise) for each feature f of a sample, with uniform noise.
template <class Value>
void each_feature(uint64_t seed, Stream section, int64_t index, size_t features, Value value) {
  for (size_t f = 0; f < features; f += 8) {
    const Block bits = random_block(seed, section, static_cast<uint64_t>(index), static_cast<uint32_t>(f / 8));
    for (size_t i = 0; i < 8 && f + i < features; ++i) {
      value(f + i, symmetric(static_cast<uint16_t>(bits[i / 2] >> (i % 2 * 16))));
    }
  }
}

size_t window(int64_t j) {
  return static_cast<size_t>(j) * 40503;
}

}  // namespace

Synthetic::Synthetic(uint64_t seed, Stream section, int64_t features, int64_t classes, int64_t targets)
    : seed_(seed), section_(section), features_(features), classes_(classes), targets_(targets), table_(kTable) {
  RUN_ASSERT((classes > 0) != (targets > 0));
  each_feature(seed, Stream::kSyntheticRule, 0, kTable, [&](size_t i, float value) { table_[i] = value; });
}

void Synthetic::read(int64_t index, std::span<float> out) const {
  if (classes_ == 0) {
    each_feature(seed_, section_, index, out.size(), [&](size_t f, float noise) { out[f] = noise; });
    return;
  }
  const size_t centre = window(label(index));
  each_feature(seed_, section_, index, out.size(),
               [&](size_t f, float noise) { out[f] = table_[(centre + f) % kTable] + noise; });
}

int64_t Synthetic::label(int64_t index) const {
  const Block bits = random_block(seed_, section_, static_cast<uint64_t>(index), kLabelBlock);
  return static_cast<int64_t>((uint64_t{bits[0]} * static_cast<uint64_t>(classes_)) >> 32);
}

void Synthetic::targets(int64_t index, std::span<float> out) const {
  const double unit = 3 / std::sqrt(static_cast<double>(features_));
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t weights = window(static_cast<int64_t>(k));
    double sum = 0;
    each_feature(seed_, section_, index, static_cast<size_t>(features_),
                 [&](size_t f, float noise) { sum += double{table_[(weights + f) % kTable]} * double{noise}; });
    out[k] = static_cast<float>(unit * sum);
  }
}

void Synthetic::hash(std::span<const int32_t> rows, Sha256& hash) const {
  hash.update(fmt::format("synthetic seed {} section {} features {} classes {} targets {}", seed_,
                          static_cast<uint32_t>(section_), features_, classes_, targets_));
  hash.update(std::as_bytes(rows));
}

namespace {

Storage read_synthetic(const schema::DatasetSpec& spec, const ReadOptions& options) {
  Storage storage;
  storage.samples = spec.samples;
  storage.feature_shape = backends::Shape(spec.feature_shape);
  const int64_t classes = spec.classes.value_or(0), targets = spec.targets.value_or(0);
  RUN_CHECK(spec.samples > 0 && (classes > 0) != (targets > 0), ErrorKind::kRecipe,
            "synthetic data needs samples, and either classes or targets");
  if (options.labels == LabelsAs::kTargets && classes > 0) {
    fail(ErrorKind::kRecipe, "synthetic classes cannot be used with a regression loss; set targets instead of classes");
  }
  if (options.labels == LabelsAs::kClasses && targets > 0) {
    fail(ErrorKind::kRecipe,
         "synthetic targets cannot be used with a classification loss; set classes instead of targets");
  }
  storage.label_kind = classes > 0 ? LabelKind::kClass : LabelKind::kTarget;
  storage.outputs = classes + targets;
  const Stream section = options.eval ? Stream::kSyntheticEval : Stream::kSyntheticTrain;
  storage.rule =
      std::make_shared<const Synthetic>(options.seed, section, storage.feature_shape.elements(), classes, targets);
  storage.source = storage.rule;
  return storage;
}

int64_t count_synthetic(const schema::DatasetSpec& spec) {
  return spec.samples;
}

}  // namespace

const DataFormatDef kSyntheticFormat{.format = schema::DataFormat::kSynthetic,
                                     .sources = kNoSources,
                                     .read = read_synthetic,
                                     .stream = kNotStreamed,
                                     .sample_count = count_synthetic};

}  // namespace runner::data
