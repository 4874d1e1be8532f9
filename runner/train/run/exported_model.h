// The weights of a checkpoint as files for other programs. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schema/recipe/recipe.h"
#include "store/state_store.h"

namespace runner::train {

struct ExportedModel {
  const store::LoadedState& state;
  const schema::Recipe* recipe = nullptr;  // of the run; null if it cannot be read
  bool folds_normalization = false;        // put scale and normalisation of the features into the first layer
};

// Writes the parameters under the model's names and returns the names of the files that formats::write_model makes of
// `file`. They have the metadata of checkpoint/model_metadata.h, and depend on the weights and these only. Throws
// Error(kUsage) if the normalisation cannot be folded.
std::vector<std::string> export_model(const ExportedModel& model, const std::string& file, int64_t max_shard_size);

}  // namespace runner::train
