// The weights of a checkpoint as files for other programs. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runner/formats/write.h"
#include "runner/train/loop/hooks.h"
#include "schema/recipe/recipe.h"
#include "store/state_store.h"

namespace runner::train {

struct ExportedModel {
  const store::LoadedState& state;
  const schema::Recipe* recipe = nullptr;  // of the run; null if it cannot be read
  bool folds_normalization = false;        // put scale and normalisation of the features into the first layer
  bool averaged = true;                    // the average of the weights, if the state has one
};

// Whether a checkpoint has averages of the weights (train.ema, train.swa).
bool has_average(const store::LoadedState& state);

// Writes the parameters under the model's names and returns the names of the files that formats::write_model makes of
// `file`. They have the metadata of checkpoint/model_metadata.h, and depend on the weights and these only. Throws
// Error(kUsage) if the normalisation cannot be folded.
std::vector<std::string> export_model(const ExportedModel& model, const std::string& file, int64_t max_shard_size,
                                      const formats::WriteParts& write = formats::write_parts);

// Returns the model with its computation as an ONNX file (runner/formats/onnx.h), in f32. Its inputs are those of the
// model, its output is "logits" for classes, else "outputs". `hooks`: those of the run; null if there are none.
// `print`: for texts that they print. Throws Error(kUsage) if the recipe is damaged or ONNX cannot express the model.
std::string onnx_file(const ExportedModel& model, std::unique_ptr<Hooks> hooks, Print print);

}  // namespace runner::train
