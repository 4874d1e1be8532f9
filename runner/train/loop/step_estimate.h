// Predicts what the steps of a recipe need: memory, on the device and on a host of real TPUs, and time on an emulated
// GPU. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/device_model/modelled_device.h"
#include "backends/gpu/timeline.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/session.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

class TrialRank;

struct StepEstimate {
  MemoryUse training;  // activations: of the largest step
  PeakMemory peak;
  int64_t all_processes = 0;  // in training
  // Maximum micro-batch found by train.auto_batch_size; none if it is off.
  std::optional<int64_t> max_micro_batch = {};
  std::optional<backends::gpu::PredictedTime> gpu_time = {};  // of the first optimizer step; none for other devices
};

// Compiles the steps of a run without allocating memory for them. Throws UnknownBeforeRun (trial_rank.h) if a hook has
// its own training loop or reads values in its steps, and OutOfMemory if a device that models its memory has too
// little.
StepEstimate estimate_steps(const schema::Recipe& recipe, const data::Data& data, const data::DataPlan& plan,
                            backends::ModelledDevice& device, Hooks* hooks);
// The same with a trial rank that exists. `hooks`: its hooks.
StepEstimate estimate_steps(TrialRank& trial, const schema::Recipe& recipe, const data::Data& data,
                            const data::DataPlan& plan, backends::ModelledDevice& device, Hooks* hooks);

// Returns the peak that estimate_steps() predicts for a session without a hook that has run. Compiles the steps of an
// epoch that have not run. `evaluates`: whether evaluations are part of it. Throws OutOfMemory like estimate_steps().
PeakMemory predicted_peak(Session& session, bool evaluates);

// Whether an evaluation precedes each checkpoint, as it does the last one. Its arrays can then be released first.
bool saves_after_evaluations(const schema::Recipe& recipe);

// ---- host memory ----------------------------------------------------------------------------------------------------

// Host memory that the ranks of a real TPU would need, depending on how processes are started.
//
// Forked processes share the pages of the data and of a model made before the fork; spawned processes have their own
// copies. Memory of Python and its libraries is not included.
struct HostMemory {
  int64_t weights = 0;  // bytes of the model, f32
  int64_t data = 0;     // bytes of the samples as tensors: f32 features and targets, i64 classes
  int64_t processes = 1;

  int64_t forked() const { return weights + data; }
  int64_t spawned() const { return processes * (weights + data); }
};

HostMemory host_memory(const Session& session);

}  // namespace runner::train
