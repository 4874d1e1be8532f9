// A model in training: its arrays, the Programs of its steps, and what runs them.
//
// StepBuilder, DeclaredStep and TracedRegion define what a step computes; Stepper and RegionRunner run it. Epochs,
// evaluation, the store and time belong to rank_run.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "backends/device_model/modelled_device.h"
#include "runner/model/models.h"
#include "runner/train/engine/batch_feed.h"
#include "runner/train/engine/device_arrays.h"
#include "runner/train/engine/engine_parts.h"
#include "runner/train/engine/executor.h"
#include "runner/train/engine/forward.h"
#include "runner/train/engine/in_flight_step.h"
#include "runner/train/engine/loader_marks.h"
#include "runner/train/engine/means.h"
#include "runner/train/engine/memory_use.h"
#include "runner/train/engine/non_finite_search.h"
#include "runner/train/engine/region_runner.h"
#include "runner/train/engine/step_arguments.h"
#include "runner/train/engine/step_memory.h"
#include "runner/train/engine/stepper.h"
#include "runner/train/engine/steps.h"
#include "runner/train/engine/update_clock.h"
#include "runner/train/engine/user_work.h"
#include "runner/train/step/counters.h"
#include "runner/train/step/device_layout.h"
#include "runner/train/step/optimizer_step.h"
#include "runner/train/step/step_builder.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

class Trainer {
 public:
  enum class Purpose { kTraining, kEvaluation };

  // Lays out the model without allocating memory. `hooks`: null if there is no hook. `ranks`: process group, or null
  // for a single process. Only forward passes may run for kEvaluation. Throws Error(kRecipe) or Error(kData) if recipe,
  // data and weights do not fit together. All arguments must outlive the object.
  Trainer(const schema::Recipe& recipe, const data::Encoding& encoding, backends::ModelledDevice& device,
          StepHooks* hooks = nullptr, backends::ProcessGroup* ranks = nullptr, Purpose purpose = Purpose::kTraining);
  ~Trainer();

  // `halt` is called repeatedly while steps are compiled and parameters are initialised before the first step, and
  // throws to stop. Empty, the default, never stops.
  void set_halt(std::function<void()> halt) { executor_.set_halt(std::move(halt)); }

  // Allocates the arrays and writes their first contents. Call before anything runs, reads or writes. Collective. The
  // ranks share one copy of the weights (shard.h), unless a hook has its own training loop.
  void allocate(FirstWeights weights = FirstWeights::kInitial);
  // Throws Error(kRun) if the limit of the process or the memory of the machine is too small for the arrays. allocate()
  // does so too.
  void check_memory();
  // See Optimizers::set_length(). Call before a step is compiled.
  void set_length(const optim::RunLength& run) { optimizers_.set_length(recipe_.train, run); }
  // Keeps gradients between micro-batches too. Call before a step is compiled.
  void keep_gradients();
  DeviceArrays& arrays() { return arrays_; }
  const DeviceArrays& arrays() const { return arrays_; }

  // Ranks that keep their own sums of gradients until an optimizer steps; null if there is one rank, if ranks train
  // alone, or if the gradients of a hook's loop are reduced at the end of each batch.
  backends::ProcessGroup* accumulating_ranks() const { return accumulating_ranks_; }

  // Loss scale of the next step; none without loss scaling.
  std::optional<double> loss_scale();

  const StepBuilder& builder() const { return builder_; }
  Steps& steps() { return steps_; }
  // Runs the optimizer steps of a declared loop.
  Stepper& stepper() { return stepper_; }
  const Stepper& stepper() const { return stepper_; }
  StepMemory& step_memory() { return step_memory_; }
  // Runs the traced regions of a hook's training loop.
  RegionRunner& regions() { return regions_; }
  Forward& forward() { return forward_; }
  LossMeans& means() { return means_; }
  // Of the gradients that this rank has accumulated.
  LostGradient lost_gradient() const;
  // Finds what was not finite in an optimizer step.
  NonFiniteSearch& search() { return search_; }

  // Code that takes batches from any loader must call these.
  LoaderMarks& marks() { return marks_; }
  // Call when the user's code marks a step, reads a metric in an evaluation, or saves or loads the arrays for a
  // checkpoint.
  void on_host_event(backends::HostEvent event) { device_.on_host_event(event); }

  const schema::Recipe& recipe() const { return recipe_; }
  const nn::Model& model() const { return model_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const DeviceLayout& layout() const { return layout_; }
  const data::Encoding& encoding() const { return encoding_; }

  // Returns the memory of the arrays, and the temporary memory of the device.
  MemoryUse memory() const;
  // How steps obtained their plans; printed at the end with RUNNER_DEBUG=1.
  struct PlanUse {
    backends::PlanCacheCounters cache;
    int64_t replayed = 0;  // steps that had their plan already, without using the plan cache
  };
  PlanUse plan_use() const { return {executor_.cache().counters(), steps_.replayed()}; }

  Counters counters;
  StepMetrics metrics;
  GradAccumulation accumulation;

 private:
  const schema::Recipe& recipe_;
  const data::Encoding& encoding_;
  backends::ModelledDevice& device_;
  nn::Model model_;
  Optimizers optimizers_;
  DeviceLayout layout_;
  const StepBuilder builder_;
  backends::ProcessGroup* const accumulating_ranks_;
  DeviceArrays arrays_;
  std::optional<UpdateClock> clock_;  // only if the device counts updates
  LoaderMarks marks_;
  Executor executor_;
  const EngineParts parts_;
  UserWork user_;
  StepArguments arguments_;
  InFlightStep in_flight_;
  Steps steps_;
  Stepper stepper_;
  RegionRunner regions_;
  Forward forward_;
  StepMemory step_memory_;
  LossMeans means_;
  NonFiniteSearch search_;
};

}  // namespace runner::train
