// From model outputs and labels to one loss and one weight per sample.
#pragma once

#include <cstdint>

#include "backends/ir/program.h"
#include "runner/data/encoding.h"
#include "schema/recipe.h"

namespace runner::train {

// The loss that a recipe means: kAuto is cross entropy for classes and mean squared error for targets.  Throws
// Error(kRecipe) where the loss, or an option that it would ignore, does not fit the labels.
schema::Loss resolve_loss(const schema::TrainSpec& spec, data::LabelKind labels);

// A digest of the shape of a loss that a hook gives, (), (B) or (B, …), without its samples: the same on all replicas.
uint64_t form_of(const backends::Shape& loss);

struct SampleLosses {
  backends::Value losses;   // (B) f32
  backends::Value weights;  // (B) f32: what a sample counts; the gradient of a window is Σ losses' / Σ weights
};

// outputs: (B, N) f32; labels: (B) i64, or targets (B) or (B, K) f32.  A regression sample's loss is the mean over its
// targets.  Weights are 1, with cross entropy the label's class weight, or 0 for ignore_index (torch's mean reduction).
SampleLosses sample_losses(const schema::TrainSpec& spec, schema::Loss loss, backends::Value outputs,
                           backends::Value labels);

}  // namespace runner::train
