// A trained model as a folder of the Hugging Face Hub, which transformers loads. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "runner/formats/write.h"
#include "runner/train/run/exported_model.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::train {

struct HubFolder {
  std::vector<std::string> files;     // written, with their paths
  std::vector<std::string> warnings;  // such as a tokenizer that is gone
};

// Writes config.json, model.safetensors (or its shards and their index), and the files of the tokenizer to `folder`.
// Weights have the names and the orientation that transformers expects. Throws Error(kUsage) if transformers has no
// such model, and Error(kData) if files of the tokenizer have changed.
HubFolder export_hub_folder(const ExportedModel& model, const schema::ReadResult& recipe, const std::string& folder,
                            int64_t max_shard_size, const formats::WriteParts& write);

}  // namespace runner::train
