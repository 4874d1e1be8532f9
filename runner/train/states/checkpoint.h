// States of a run: what a Trainer and its loop are, as named sections of bytes, and back.
//
// One section for each parameter ("model/0.weight"), each of its optimizer slots ("optimizer/0.weight/exp_avg") and,
// inside a window and in a loop of a hook's that carries gradients on, its gradient ("gradient/0.weight"), which is the
// sum over all replicas; one for the sums behind train/loss; one JSON document ("run") with everything that the host
// and the hook count and keep.  docs/store.md has the layout. Sections follow parameters, not buffers, so a state does
// not depend on how groups lie in memory, on the backend or on the number of replicas.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/data/loader.h"
#include "runner/optim/lr_schedule.h"
#include "runner/train/step/trainer.h"
#include "store/state_store.h"

namespace runner::train {

// Early stopping: the best figure and the evaluations since.
struct Patience {
  std::optional<double> best;
  int64_t evaluations = 0;
  bool operator==(const Patience&) const = default;
};

// What is still to be done behind a window: what an error or an interruption kept from being done.
struct WindowEnd {
  bool evaluation = false;  // that is due
  bool evaluated = false;   // of which on_evaluation has not heard
  bool ends_epoch = false;  // of which on_epoch_end has not heard; on_step_end has not, either
  bool operator==(const WindowEnd&) const = default;
};

// What the host knows about a run at the end of a window, or inside one of the recipe's loop.
struct RunState {
  data::Position position;  // of the next batch
  TrainingWindow window;    // under way; without batches: none
  // Finished at the end of the newest window: what is due at the next one goes by it.  A loop of a hook's may have left
  // epochs since.
  int64_t reached_epoch = 0;
  std::optional<WindowEnd> end;  // of the newest window; none: it has been
  // Batches of a window, and of those behind it (0: an older state, as the recipe says).
  int64_t accumulation = 0, next_accumulation = 0;
  // In terms that do not depend on the size of batches: positions of the epoch's order that are used, of how many
  // samples a global batch was (0: an older state, which does not say), Session::extra_steps().
  int64_t used = 0, global_batch = 0, extra_steps = 0;
  int64_t most_at_once = 0;  // WindowParts::most_at_once
  Counters counters;
  optim::PlateauState plateau;
  Patience patience;
  StepMetrics metrics;
  std::string hook;  // Hooks::state(); empty: no hook
  data::Encoding encoding;
  std::string train_data;  // Fingerprint::to_string()
  std::string eval_data;   // empty: none
};

// The description of a section that holds a tensor.
std::string meta_of(const backends::TensorType& type);

// Copies trainer and state into `snapshot`, whose header the caller fills.
void capture(Trainer& trainer, const RunState& state, store::StateSnapshot& snapshot);
// The same for a replica that updates the trainer's weights with this one: without the tensors, which it has already.
void capture_for_replica(Trainer& trainer, const RunState& state, store::StateSnapshot& snapshot);

// "parameter 0.weight is inf" for the first parameter with a value that is not finite.
std::optional<std::string> not_finite_parameter(const store::StateSnapshot& snapshot);

// The host part of a loaded state.  Throws Error(kStore) naming the state where it is neither as capture() writes it
// nor as an older version did.  `optimizers`: names for the updates in such an older state, which has none.
RunState run_state_of(const store::LoadedState& loaded, const std::vector<std::string>& optimizers = {});

// Puts a loaded state into a trainer, except for what another replica writes.  Throws Error(kStore) naming the first
// tensor that the state lacks, has in another shape, or has too many.
void restore(const store::LoadedState& loaded, Trainer& trainer);

// For a fork, one part of a loaded state at a time.  Throws Error(kRecipe) with the first parameter that only one of
// the models has, or both with its shapes.
void restore_model(const store::LoadedState& loaded, Trainer& trainer);
// All slots of all trainable parameters, or none of them and what the state lacks.
std::optional<std::string> restore_slots(const store::LoadedState& loaded, Trainer& trainer);
// Gradients of a window under way, or that a loop of a hook's carries on, where the state has some.
void restore_gradients(const store::LoadedState& loaded, Trainer& trainer);
// The sums behind train/loss.
void restore_sums(const store::LoadedState& loaded, Trainer& trainer);

// The trainer's parameters as they are, as the files of formats::model_files.
struct FileBytes {
  std::string name;
  std::vector<std::byte> bytes;
};
std::vector<FileBytes> model_files(Trainer& trainer, const std::string& name, int64_t max_shard_size);

// The parameters of a loaded state by name, f32.
struct StoredParameter {
  std::string name;
  backends::Shape shape;
  std::span<const std::byte> values;  // into the loaded state
};
std::vector<StoredParameter> parameters_of(const store::LoadedState& loaded);

// Throws Error(kData) saying what changed, and `remedy`, where the data of `section` ("data.train") are not those that
// a state was trained on.  Fingerprints as text; empty: no such data.
void check_data(const char* section, const std::string& before, const std::string& now, const char* remedy);

}  // namespace runner::train
