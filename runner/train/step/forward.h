// Batches through the model as it is, without training.  Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/train/step/executor.h"
#include "runner/train/step/step_arguments.h"
#include "runner/train/step/step_metrics.h"
#include "runner/train/step/steps.h"

namespace runner::train {

// One batch as the model left it.
struct Evaluated {
  std::vector<float> outputs;    // (B, N)
  std::vector<int64_t> classes;  // (B), for classes; of a text (B, T)
  std::vector<float> targets;    // (B, N), for targets
  std::vector<float> losses, weights;
  MetricSums metrics;  // of a hook
};

class Forward {
 public:
  // All must outlive it.
  Forward(const data::Encoding& encoding, backends::Device& device, Executor& executor, StepArguments& arguments,
          Steps& steps);

  // `result` is overwritten.  `first`: of an evaluation.
  void evaluate(const data::Batch& batch, bool first, Evaluated& result);
  // The same without labels.
  void predict(const data::Batch& batch, std::span<float> outputs);
  // Compiles the step of an evaluation with batches of so many samples.
  SharedStep step_of_evaluation(int64_t samples);

 private:
  SharedStep run(const data::Batch& batch, bool labelled, bool first);

  const data::Encoding& encoding_;
  backends::Device& device_;
  Executor& executor_;
  StepArguments& arguments_;
  Steps& steps_;
};

}  // namespace runner::train
