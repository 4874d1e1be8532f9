// Computes one loss and one weight per sample from model outputs and labels.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"
#include "runner/data/encoding.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Resolves kAuto: cross entropy for classes, mean squared error for targets. Throws Error(kRecipe) if the loss does not
// fit the labels or would ignore an option.
schema::Loss resolve_loss(const schema::TrainSpec& spec, data::LabelKind labels);

// Digest of the shape of a hook's loss, (), (B) or (B, …), without B, so that it is the same on all ranks.
uint64_t form_of(const backends::Shape& loss);

// Returns the options of a loss without smoothing and class weights: for classes its mean is the negative
// log-likelihood.
schema::TrainSpec plain_loss(schema::TrainSpec spec);
// Whether plain_loss() changes the loss.
bool is_plain(const schema::TrainSpec& spec);

struct SampleLosses {
  backends::Value losses;  // (B) f32
  // (B) f32, weights of the samples; the gradient of an optimizer step is that of Σ losses / Σ weights.
  backends::Value weights;
};

// outputs: (B, N) f32; labels: (B) i64, or targets (B) or (B, K) f32. With targets, a sample's loss is the mean over
// its targets. Weights are 1; for cross entropy they are the label's class weight, or 0 for ignore_index (mean
// reduction of torch).
SampleLosses sample_losses(const schema::TrainSpec& spec, schema::Loss loss, backends::Value outputs,
                           backends::Value labels);

}  // namespace runner::train
