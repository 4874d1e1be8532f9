// Replays the memory requests of a training: the steps of an epoch in order, those of an evaluation, epoch after epoch.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "backends/gpu/memory_model.h"
#include "backends/gpu/memory_trace.h"

namespace runner::backends::gpu {

// Memory requests of a training run: its arrays, and the steps of an epoch in order, followed by those of an
// evaluation.
struct TrainingSteps {
  std::vector<const MemoryTrace*> training, evaluation;

  size_t size() const { return training.size() + evaluation.size(); }
};

// `Memory`: has run() and stage() like DeviceMemory, which report a refusal by throwing. Its arrays are allocated.
template <class Memory>
class TrainingReplay {
 public:
  // All must outlive the object.
  TrainingReplay(const TrainingSteps& steps, bool captures, Memory& memory, OwnerTable& owners)
      : steps_(steps), captures_(captures), memory_(memory), owners_(owners) {}

  void run() {
    for (int epoch = 0; epoch < kEpochs; ++epoch) run_epoch();
    // Steps that come late or change run eagerly in addition to the captured graphs.
    if (std::exchange(captures_, false)) run_epoch();
  }

 private:
  // The peak may still grow after an epoch that adds nothing: the next one places batches elsewhere, and graphs are
  // captured. Of a million random trainings, with and without captured graphs, run for 24 epochs, 11 grew in the fifth
  // epoch and none later.
  static constexpr int kEpochs = 8;

  StepAllocations& memory_of(const MemoryTrace& step) {
    return memories_.try_emplace(&step, step, owners_).first->second;
  }

  void run_epoch() {
    for (size_t step = 0; step < steps_.training.size(); ++step) {
      run_step(*steps_.training[step], staged_);
      stage_after(step);
    }
    for (const MemoryTrace* const step : steps_.evaluation) run_step(*step, 0);
  }

  void run_step(const MemoryTrace& step, uint64_t staged) {
    StepAllocations& used = memory_of(step);
    memory_.run(used, {.pools = pools_of_run(used.runs(), captures_), .staged = staged});
  }

  // Stages the batch of the next step that copies one.
  void stage_after(size_t step) {
    const size_t count = steps_.training.size();
    if (steps_.training[step]->batch.empty()) return;
    size_t next = (step + 1) % count;
    while (steps_.training[next]->batch.empty()) next = (next + 1) % count;
    const StepAllocations& like = memory_of(*steps_.training[next]);
    memory_.stage(++staged_, like, batch_bytes(like.trace()));
  }

  const TrainingSteps& steps_;
  bool captures_;
  Memory& memory_;
  OwnerTable& owners_;
  std::map<const MemoryTrace*, StepAllocations> memories_;
  uint64_t staged_ = 0;  // newest
};

// Whether the arrays (bytes of each) and the steps fit into `limit` bytes.
bool fits_training(std::span<const int64_t> arrays, const TrainingSteps& steps, int64_t limit, bool captures);

}  // namespace runner::backends::gpu
