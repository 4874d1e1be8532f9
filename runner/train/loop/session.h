// Objects made of a recipe before the first step: data, plan, device, model, schedule.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "runner/data/data_file.h"
#include "runner/data/load.h"
#include "runner/data/plan.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/engine/trainer.h"
#include "runner/train/loop/hooks.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

// Size of the run, for schedules and intervals.
optim::RunLength run_length(const schema::Recipe& recipe, const data::DataPlan& plan);

struct Session {
  // Lays out the model; Trainer::allocate() allocates it. `read`: data of the recipe; null to read them here.
  // `own_thread`: see DeviceRules::make. `hooks`: null if there is no hook. `ranks`: process group, or null for a
  // single process. `recipe`, `hooks` and `ranks` must outlive the session. Throws Error(kRecipe) or Error(kData).
  explicit Session(const schema::Recipe& recipe, Hooks* hooks = nullptr, backends::ProcessGroup* ranks = nullptr,
                   data::SharedData read = nullptr, std::optional<bool> own_thread = {});

  const schema::Recipe& recipe;
  const data::SharedData shared_data;
  const data::Data& data;  // *shared_data
  data::DataPlan plan;
  optim::RunLength length;
  std::vector<data::DataFile> weight_files;  // of model.init_from or pretrained, with their stamps before they are read
  std::unique_ptr<backends::ModelledDevice> device;
  Trainer trainer;
  optim::LrSchedule schedule;

  const bool has_custom_loop;    // the hook has an entry train
  const bool has_training_step;  // the hook has an entry training_step
  backends::ProcessGroup* const ranks;
  int64_t rank() const { return ranks != nullptr ? ranks->rank() : 0; }
  // Returns the plan of the rest of an epoch, from where the plan of `position` starts.
  data::DataPlan plan_at(const data::Position& position) const { return plan.from(position.start); }
  // Number of positions of the epoch's order that come before `position`.
  int64_t used_before(const data::Position& position) const;
  // Number of optimizer steps by which the run exceeds those of its recipe, because it was trained with another global
  // batch size or accumulation.
  int64_t extra_steps() const { return extra_steps_; }
  void set_extra_steps(int64_t extra);

  // Limits micro-batches (GradAccumulation) from now on; 0: no limit. Call before a step is compiled.
  void set_max_micro_batch(int64_t samples);
  // Batches per optimizer step, from the next one on.
  int64_t accumulation() const { return trainer.accumulation.batches_per_step; }
  void set_accumulation(int64_t batches);
  // Recounts the remaining optimizer steps of a run whose length is in epochs, with the current accumulation, from the
  // batch at `position` on. `before`: batches of its optimizer step that come before it.
  void count_steps_from(const data::Position& position, int64_t before);

  // Number of samples of the optimizer step whose first batch is at `position`, over all ranks that add up gradients.
  int64_t samples_of_step(const data::Position& position) const;
  // Warnings about the data plan.
  std::vector<std::string> plan_warnings() const;

  // Rates of the next optimizer step, or of one `ahead` schedule steps later, if all pending steps are applied.
  ScheduleRates rates(int64_t ahead = 0) const;

  // Returns rank 0's value, so that all ranks decide alike. Collective.
  double broadcast_from_rank_0(double value) const;
  uint64_t data_seed() const;
  // Fingerprints of the data, computed on first use.
  const std::string& train_fingerprint();
  const std::string& eval_fingerprint();  // empty if there is no eval data

 private:
  std::optional<std::string> unnamed_classes_warning() const;
  // Warns of a rate that is 0 or rises again after the end of the schedule.
  std::optional<std::string> end_of_schedule_warning() const;
  std::optional<std::string> batch_statistics_warning() const;
  void use_hook_schedule();

  Hooks* const hooks_;
  int64_t extra_steps_ = 0;
  std::string train_fingerprint_, eval_fingerprint_;
};

}  // namespace runner::train
