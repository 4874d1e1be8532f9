// Computes one loss and one weight per sample from model outputs and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/ir/program.h"
#include "runner/data/encoding.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// The loss of a recipe for its data.
struct LossSpec {
  schema::Loss loss = schema::Loss::kCrossEntropy;  // never kAuto
  std::vector<double> class_weights = {};           // by class; empty: 1
  double label_smoothing = 0;
  std::optional<int64_t> ignored_label = {};  // as in data::Encoding
  double huber_delta = 1;
  std::vector<double> pos_weight = {};  // of bce_with_logits, by target; empty: 1

  // The loss without smoothing and weights: for classes its mean is the negative log-likelihood.
  LossSpec plain() const;
  bool is_plain() const { return class_weights.empty() && label_smoothing == 0 && pos_weight.empty(); }
};

// `auto` is cross entropy for classes, and mean squared error for targets. Throws Error(kRecipe) if the loss does not
// fit the labels or would ignore an option, or if weights do not fit the classes or targets.
LossSpec loss_of(const schema::TrainSpec& spec, const data::Encoding& encoding);

// Whether all samples of an optimizer step may have weight 0: labels are ignored, or a class has weight 0.
bool may_weigh_nothing(const schema::TrainSpec& spec, const data::Encoding& encoding);

// Digest of the shape of a hook's loss, (), (B) or (B, …), without B, so that it is the same on all ranks.
uint64_t loss_shape_digest(const backends::Shape& loss);

struct SampleLosses {
  backends::Value losses;  // (B) f32
  // (B) f32, weights of the samples; the gradient of an optimizer step is that of Σ losses / Σ weights.
  backends::Value weights;
};

// outputs: (B, N) f32; labels: (B) i64, or targets (B) or (B, K) f32. With targets, a sample's loss is the mean over
// its targets. Weights are 1; for cross entropy they are the label's class weight, or 0 for the ignored label (mean
// reduction of torch). Labels of cross entropy may also be probabilities of the classes, (B, N) f32. Then smoothing is
// p · (1 − s) + s / N, class weights multiply the terms of their classes, and the weights of samples are 1, as in
// torch.
SampleLosses sample_losses(const LossSpec& spec, backends::Value outputs, backends::Value labels);

}  // namespace runner::train
