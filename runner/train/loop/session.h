// Everything that a recipe turns into before the first step: data, plan, device, model, schedule.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/tpu/tpu_device.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/step/trainer.h"
#include "schema/recipe.h"

namespace runner::backends::gpu {
class GpuDevice;  // gpu_device.h
}

namespace runner::train {

// The size of a run, for schedules and intervals.
optim::RunScale run_scale(const schema::Recipe& recipe, const data::DataPlan& plan);

struct Session {
  // Lays the model out; Trainer::allocate() gives it memory.  `read`: the data of the recipe; null: they are read here.
  // `own_thread`: as DeviceRules::make.  Throws Error(kRecipe) or Error(kData).  Recipe, hooks (null: none) and
  // replicas (null: this is the only one) must outlive the session.
  explicit Session(const schema::Recipe& recipe, Hooks* hooks = nullptr, backends::Collectives* ranks = nullptr,
                   data::SharedData read = nullptr, std::optional<bool> own_thread = {});

  const schema::Recipe& recipe;
  const data::SharedData shared_data;
  const data::Data& data;  // the same
  data::DataPlan plan;
  optim::RunScale scale;
  std::unique_ptr<backends::Device> device;
  backends::tpu::TpuDevice* const tpu;  // the same; null: it is another one
  backends::gpu::GpuDevice* const gpu;  // likewise
  Trainer trainer;
  optim::LrSchedule schedule;

  const bool own_loop;  // the hook has an entry train
  const bool own_step;  // the hook has an entry training_step
  backends::Collectives* const ranks;
  int64_t rank() const { return ranks != nullptr ? ranks->rank() : 0; }
  // The plan of what is left of an epoch where the plan of `position` begins.
  data::DataPlan plan_at(const data::Position& position) const { return plan.from(position.start); }
  // Positions of its epoch's order that are used before it.
  int64_t used_before(const data::Position& position) const;
  // Windows that the run has beyond those that its recipe says, since it was trained with other global batches or
  // windows.
  int64_t extra_steps() const { return extra_steps_; }
  void set_extra_steps(int64_t extra);

  // No step has more samples from now on (WindowParts); 0: any number.  Before a step is compiled.
  void set_most_at_once(int64_t samples);
  // Batches of a window, from the next one on.
  int64_t accumulation() const { return trainer.parts.accumulation; }
  void set_accumulation(int64_t batches);
  // What is left of a run of so many epochs is counted anew, in windows as they are now: from the batch at `position`
  // on, `before` of whose window's batches are before it.
  void count_steps_from(const data::Position& position, int64_t before);

  // Samples of the window whose first batch is at `position`, of all replicas whose gradients it adds up.
  int64_t samples_of_window(const data::Position& position) const;
  // What of the plan deserves a word.
  std::vector<std::string> plan_warnings() const;

  // Of the next step, or of one of the schedule's steps behind it, if all that is pending is applied.
  WindowRates rates(int64_t ahead = 0) const;

  // A number as rank 0 has it: what decides must be the same for all replicas.
  double of_main(double value) const;
  uint64_t data_seed() const;
  // Fingerprints of the data, made when first asked for.
  const std::string& train_fingerprint();
  const std::string& eval_fingerprint();  // empty: no eval data

 private:
  void tell_of_states();
  void ask_hook_for_schedule();
  void warn_of_numbers(std::vector<std::string>& warnings) const;

  Hooks* const hooks_;
  int64_t extra_steps_ = 0;
  std::string train_fingerprint_, eval_fingerprint_;
};

}  // namespace runner::train
