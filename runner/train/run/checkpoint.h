// Checkpoints of a run: converts a Trainer and its loop to named sections of bytes and back.
//
// There is one section per parameter ("model/0.weight") and optimizer slot ("optimizer/0.weight/exp_avg"). Gradients,
// summed over all ranks, are saved within an optimizer step and if a hook's training loop keeps them
// ("gradient/0.weight"). One section has the sums for train/loss, and one JSON document ("run") has everything that the
// host and the hook count and keep. docs/store.md describes the layout. Sections follow parameters, not flat buffers,
// so a checkpoint does not depend on the memory layout of groups, the backend, or the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/engine/trainer.h"
#include "store/state_store.h"

namespace runner::train {

// Early stopping: the best metric value and the number of evaluations since.
struct Patience {
  std::optional<double> best;
  int64_t evaluations = 0;
  bool operator==(const Patience&) const = default;
};

// What remains to be done after an optimizer step, because an error or an interruption prevented it.
struct WindowEnd {
  bool evaluation = false;  // an evaluation is due
  bool evaluated = false;   // evaluated, but on_evaluation has not been called
  bool ends_epoch = false;  // on_epoch_end has not been called; neither has on_step_end
  bool operator==(const WindowEnd&) const = default;
};

// State of a run on the host, after an optimizer step or, with the declared loop, within one.
struct RunState {
  data::Position position;  // of the next batch
  TrainingWindow window;    // in progress; without batches: none
  // Epochs finished at the end of the last optimizer step, which intervals count from. A hook's training loop may have
  // left epochs since.
  int64_t reached_epoch = 0;
  std::optional<WindowEnd> end;  // of the last optimizer step; none: nothing remains
  // Batches per optimizer step, of the current one and of later ones. 0: an older checkpoint; use the recipe's value.
  int64_t accumulation = 0, next_accumulation = 0;
  // Position independent of the batch size: used positions of the epoch's order, samples per global batch (0: an older
  // checkpoint without it), and Session::extra_steps().
  int64_t used = 0, global_batch = 0, extra_steps = 0;
  int64_t most_at_once = 0;  // WindowParts::most_at_once
  Counters counters;
  optim::PlateauState plateau;
  Patience patience;
  StepMetrics metrics;
  std::string hook;  // Hooks::state(); empty without hook
  data::Encoding encoding;
  std::string train_data;  // Fingerprint::to_string()
  std::string eval_data;   // empty: none
};

// Returns the description of a tensor section.
std::string meta_of(const backends::TensorType& type);

// Copies trainer and state into `snapshot`. The caller fills its header.
void capture(Trainer& trainer, const RunState& state, store::StateSnapshot& snapshot);
// Like capture(), for a rank that shares the trainer's weights with this one: omits the tensors, which it already has.
void capture_for_replica(Trainer& trainer, const RunState& state, store::StateSnapshot& snapshot);

// Describes the first parameter that is not finite: "parameter 0.weight is inf".
std::optional<std::string> not_finite_parameter(const store::StateSnapshot& snapshot);

// Returns the host part of a loaded checkpoint. `optimizers`: names for the update counts of older checkpoints, which
// have no names. Throws Error(kStore) naming the checkpoint if its format is neither that of capture() nor of an older
// version.
RunState run_state_of(const store::LoadedState& loaded, const std::vector<std::string>& optimizers = {});

// Restores a checkpoint into a trainer, except for arrays that another rank writes. Throws Error(kStore) naming the
// first tensor that the checkpoint lacks, has in another shape, or has in excess.
void restore(const store::LoadedState& loaded, Trainer& trainer);

// Restores the parameters, for a fork. Throws Error(kRecipe) with the first parameter that only one of the models has
// or whose shapes differ.
void restore_model(const store::LoadedState& loaded, Trainer& trainer);
// Restores all slots of all trainable parameters. If the checkpoint lacks one, restores none and returns which is
// missing.
std::optional<std::string> restore_slots(const store::LoadedState& loaded, Trainer& trainer);
// Restores the gradients of an optimizer step in progress, or those that a hook's training loop keeps, if there are
// any.
void restore_gradients(const store::LoadedState& loaded, Trainer& trainer);
// Restores the sums for train/loss.
void restore_sums(const store::LoadedState& loaded, Trainer& trainer);

// Returns the trainer's current parameters as the files of formats::model_files.
struct FileBytes {
  std::string name;
  std::vector<std::byte> bytes;
};
std::vector<FileBytes> model_files(Trainer& trainer, const std::string& name, int64_t max_shard_size);

// Returns the parameters of a loaded checkpoint by name, f32.
struct StoredParameter {
  std::string name;
  backends::Shape shape;
  std::span<const std::byte> values;  // refers to the loaded checkpoint
};
std::vector<StoredParameter> parameters_of(const store::LoadedState& loaded);

// Throws Error(kData) with the difference and `remedy` if the data of `section` ("data.train") are not those that the
// checkpoint was trained on. `before`, `now`: fingerprints as text; empty: no such data.
void check_data(const char* section, const std::string& before, const std::string& now, const char* remedy);

}  // namespace runner::train
