// Runs batches through the current model without training. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/ir/label_rank.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/step_arguments.h"
#include "runner/train/engine/steps.h"
#include "runner/train/step/counters.h"

namespace runner::train {

// Results of the model for one batch.
struct Evaluated {
  std::vector<float> outputs;                      // (B, N), if StepBuilder::evaluations_read_outputs(); else empty
  std::vector<int64_t> classes;                    // (B) for class labels; (B, T) for text
  std::vector<backends::LabelRank> ranks;          // of each of the classes
  std::vector<float> targets;                      // (B, N) for targets
  std::vector<float> losses, weights;              // (B)
  std::vector<float> plain_losses, plain_weights;  // (B), if StepBuilder::evaluations_read_plain_losses(); else empty
  bool own_loss = false;                           // Recorded::own_loss
  MetricSums metrics;                              // of a hook
};

class Forward {
 public:
  explicit Forward(const EngineParts& parts) : parts_(parts) {}

  // Evaluates a batch and overwrites `result`. `first`: whether it is the first batch of an evaluation.
  void evaluate(const data::Batch& batch, bool first, Evaluated& result);
  // Computes the outputs of a batch without labels.
  void predict(const data::Batch& batch, std::span<float> outputs);
  // Compiles the evaluation step for batches of `samples` samples.
  SharedStep step_of_evaluation(int64_t samples);

 private:
  SharedStep run(const data::Batch& batch, bool labelled, bool first);

  const EngineParts& parts_;
};

}  // namespace runner::train
