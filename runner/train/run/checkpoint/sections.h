// Checkpoints of a run: converts a Trainer and its loop to named sections of bytes and back.
//
// There is one section per parameter ("model/0.weight") and optimizer slot ("optimizer/0.weight/exp_avg"). Gradients
// are saved within an optimizer step, with those of ranks above 0 (rank_parts.h), and if a hook's training loop keeps
// them ("gradient/0.weight"). One section has the sums for train/loss, and one JSON document has the host part
// (run_document.h). Buffers of the model have sections of their own ("buffer/1.running_mean"), and their averages
// ("buffer_average/1.running_mean"). docs/store.md describes the layout. Sections follow parameters, not flat buffers,
// so a checkpoint does not depend on the memory layout of groups, the backend, or the number of ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/train/engine/trainer.h"
#include "runner/train/loop/checkpoint.h"
#include "store/state_store.h"

namespace runner::train {

// Names of the sections of gradients and of comm.unused, without those of the parameters, and of the sums.
inline constexpr std::string_view kGradientSections = "gradient/", kUseSections = "use/", kSumsSection = "sums";

// Returns the description of a tensor section.
std::string meta_of(const backends::TensorType& type);

// Whether a snapshot has copies of the weights and slots, or is lent them if the device allows that.
enum class Arrays { kCopied, kLent };
// Copies the trainer and `state`, what the host keeps, into `snapshot`. The caller fills its header.
void capture(Trainer& trainer, const Checkpoint& state, store::StateSnapshot& snapshot,
             Arrays arrays = Arrays::kCopied);
// Like capture(), for a rank that shares the trainer's weights with this one: omits the tensors, which it already has.
void capture_for_rank(Trainer& trainer, const Checkpoint& state, store::StateSnapshot& snapshot);

// Describes the first parameter that is not finite: "parameter 0.weight is inf".
std::optional<std::string> not_finite_parameter(const store::StateSnapshot& snapshot);

// Restores a checkpoint into a trainer, except for arrays that another rank writes. Throws Error(kStore) naming the
// first tensor that the checkpoint lacks, has in another shape, or has in excess.
void restore(const store::LoadedState& loaded, Trainer& trainer);

// Restores what evaluations read into a trainer for evaluation. Throws like restore(). is_of_evaluation(): whether it
// may read a section of this name.
void restore_evaluated(const store::LoadedState& loaded, Trainer& trainer);
bool is_of_evaluation(std::string_view section);

// Restores the parameters, for a fork, and begins their averages with them. Throws Error(kRecipe) with the first
// parameter that only one of the models has or whose shapes differ.
void restore_model(const store::LoadedState& loaded, Trainer& trainer);
// Restores all slots of all trainable parameters. If the checkpoint lacks one other than an average, restores none and
// returns which is missing.
std::optional<std::string> restore_slots(const store::LoadedState& loaded, Trainer& trainer);
// Restores the gradients of an optimizer step in progress, or those that a hook's training loop keeps, if there are
// any.
void restore_gradients(const store::LoadedState& loaded, const Checkpoint& state, Trainer& trainer);
// Restores the sums for train/loss.
void restore_sums(const store::LoadedState& loaded, Trainer& trainer);

// Returns the weights that evaluations of the trainer use as the files of formats::model_files.
struct FileBytes {
  std::string name;
  std::vector<std::byte> bytes;
};
std::vector<FileBytes> model_files(Trainer& trainer, const std::string& name, int64_t max_shard_size);

// Returns the parameters of a loaded checkpoint by name, f32. `averaged`: their averages, if the checkpoint has them.
struct StoredParameter {
  std::string name;
  backends::Shape shape;
  std::span<const std::byte> values;  // refers to the loaded checkpoint

  std::vector<float> floats() const;  // a copy
};
std::vector<StoredParameter> parameters_of(const store::LoadedState& loaded, bool averaged);

// Returns the buffers of a loaded checkpoint by name. `averaged`: their averages, if the checkpoint has them.
struct StoredBuffer {
  std::string name;
  backends::TensorType type;
  std::span<const std::byte> values;  // refers to the loaded checkpoint
};
std::vector<StoredBuffer> stored_buffers(const store::LoadedState& loaded, bool averaged);

// Returns the average of a parameter's values; null if the checkpoint has none.
const store::Section* average_of(const store::LoadedState& loaded, std::string_view parameter);

// Throws Error(kData) with the difference and `remedy` if the data of `section` ("data.train") are not those that the
// checkpoint was trained on. `before`, `now`: fingerprints as text; empty: no such data.
void check_data(const char* section, const std::string& before, const std::string& now, const char* remedy);

}  // namespace runner::train
