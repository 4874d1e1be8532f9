// The LoRA adapter of a checkpoint: as files that PEFT reads, or merged into the weights. Thread-safe.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/exported_model.h"

namespace runner::train {

// Creates the folder and writes adapter_model.safetensors, with the matrices of model.lora and its modules_to_save, and
// adapter_config.json to a folder. Returns their paths. Throws Error(kUsage) if the model has no adapter.
std::vector<std::string> export_adapter(const ExportedModel& model, const std::string& folder,
                                        const formats::WriteParts& write = formats::write_parts);

// Parameters without adapters: those of model.lora are merged into the weights of their layers, W + alpha / rank · B A.
class MergedParameters {
 public:
  // `parameters`: by name; what they refer to must outlive the object.
  MergedParameters(std::vector<StoredParameter> parameters, const schema::Lora& lora);

  // Refers to the object.
  const std::vector<StoredParameter>& parameters() const { return parameters_; }

 private:
  std::vector<StoredParameter> parameters_;
  std::deque<std::vector<float>> merged_;
};

}  // namespace runner::train
