// The memory of a Trainer: what its arrays take, what its steps need beside them, and whether the device has so much.
#include <algorithm>
#include <utility>
#include <vector>

#include "runner/train/step_completion.h"
#include "runner/train/trainer.h"
#include "schema/error.h"
#include "schema/field_words.h"

namespace runner::train {

void Trainer::limit_memory() {
  const auto limit = device_.memory_limit();
  if (!limit) return;
  const int64_t arrays = arrays_memory().total();
  RUN_CHECK(arrays <= *limit, ErrorKind::kRun,
            "out of memory: parameters, gradients and optimizer take {}, and a process may take {} for tensors",
            schema::size_text(arrays), schema::size_text(*limit));
  memory_ = *limit - arrays;
}

void Trainer::check_memory(std::string_view step, const backends::Executable& executable) const {
  const auto needed = static_cast<int64_t>(executable.arena_bytes());
  RUN_CHECK(!memory_ || needed <= *memory_, ErrorKind::kRun,
            "out of memory: \"{}\" takes {} beside parameters, gradients and optimizer, and a process may take {} more "
            "for tensors; make data.batch_size smaller, or set train.auto_batch_size",
            step, schema::size_text(needed), schema::size_text(*memory_));
}

MemoryUse Trainer::arrays_memory() const {
  MemoryUse use;
  for (const DeviceArray& array : layout_.arrays()) {
    const auto bytes = static_cast<int64_t>(array.type.bytes());
    int64_t& kind = array.role == Role::kParameters  ? use.parameters
                    : array.role == Role::kSlot      ? use.optimizer
                    : array.role == Role::kGradients ? use.gradients
                                                     : use.other;
    kind += bytes;
    if (shares_ && is_common(array)) use.common += bytes;
    use.largest_array = std::max(use.largest_array, bytes);
  }
  return use;
}

MemoryUse Trainer::memory() const {
  MemoryUse use = arrays_memory();
  use.activations = static_cast<int64_t>(device_.temporary_bytes());
  return use;
}

int64_t Trainer::temporary_bytes_of_window(int64_t batch) {
  const bool several = recipe_.gradient_accumulation_steps > 1 || at_once(batch) < batch;
  batch = at_once(batch);
  size_t most = 0;
  for (const auto& [first, last] :
       std::vector<std::pair<bool, bool>>{{true, true}, {true, false}, {false, true}, {false, false}}) {
    if (!several && !(first && last)) continue;
    most = std::max(most, training_step(shape_of(batch, first, last && steps_alone()), nullptr)->arena_bytes());
  }
  if (shares_) most = std::max(most, device_.compile(complete_window(builder_, *shares_))->arena_bytes());
  return static_cast<int64_t>(most);
}

int64_t Trainer::temporary_bytes_of_evaluation(int64_t batch) {
  const StepKind kind{.training = false, .labelled = true, .shape = {.batch = at_once(batch)}};
  return static_cast<int64_t>(step_of(kind, nullptr)->arena_bytes());
}

}  // namespace runner::train
