// Memory of an emulated GPU. Errors tell what memory is used for and what to change (memory_shortage.h).
//
// A MemoryModel with names of the owners. Thread safety: only for the host's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/exec/backend.h"
#include "backends/gpu/memory_model.h"
#include "backends/gpu/memory_trace.h"
#include "backends/gpu/training_replay.h"
#include "backends/ir/program.h"

namespace runner::backends::gpu {

struct MemorySpec {
  std::string device;                   // "gpu 0"
  int64_t limit = 0;                    // bytes
  bool captures = false;                // steps become captured graphs, which need more memory
  std::vector<int64_t> arrays = {};     // bytes of the arrays to be made; empty: unknown
  std::vector<int64_t> for_parts = {};  // further arrays with gradient accumulation: kept gradients
  ArrayDescriptions descriptions = {};

  // Returns the description of an array, or else its name.
  std::string_view describe(std::string_view array) const;
};

class DeviceMemory {
 public:
  // Throws like CachingAllocator's constructor.
  explicit DeviceMemory(MemorySpec spec) : spec_(std::move(spec)), model_(spec_.limit) {}

  const MemorySpec& spec() const { return spec_; }
  void describe_arrays(ArrayDescriptions descriptions) { spec_.descriptions = std::move(descriptions); }
  // Sets the arrays that the advice in errors counts (MemorySpec).
  void expect_arrays(std::vector<int64_t> arrays, std::vector<int64_t> for_parts);
  // Sets all steps of the training, for the advice in errors; null, the default: those that have run. Must outlive the
  // object.
  void set_training(const TrainingSteps* steps) { training_ = steps; }
  const CachingAllocator& allocator() const { return model_.allocator(); }
  CachingAllocator& allocator() { return model_.allocator(); }
  OwnerTable& owners() { return model_.owners(); }

  // Allocates an array that is kept until it is freed. `bytes`: at least 1. Throws OutOfMemory.
  BlockId allocate(int64_t bytes, PoolId pool, OwnerId owner);
  void free(BlockId id) { allocator().free(id); }

  // Like the functions of MemoryModel, but throw OutOfMemory. Then the submission has no memory, earlier submissions
  // have lost their outputs, and a batch being staged is not staged. `lines`: source lines of the submission for
  // errors, or null for those of the Plan.
  void run(StepAllocations& step, const MemoryModel::Submission& submission, const SourceLines* lines = nullptr);
  void stage(uint64_t number, const StepAllocations& like, std::span<const int64_t> bytes);
  void drop_staged() { model_.drop_staged(); }
  void release_step() { model_.release_step(); }

 private:
  void remember(const MemoryTrace& trace);
  OutOfMemory error_of(const StepAllocations& step, const Refusal& refusal, const SourceLines* lines);

  MemorySpec spec_;
  MemoryModel model_;
  const TrainingSteps* training_ = nullptr;
  std::deque<MemoryTrace> seen_;  // steps that have run, newest last
};

// Forecasts run steps one after the other on a DeviceMemory of their own, exactly as on the device.

// Memory of a step on a device that contains only the arrays it uses.
struct MemoryForecast {
  int64_t resident = 0;  // reserved for its states
  int64_t peak_reserved = 0;

  int64_t temporary() const { return peak_reserved - resident; }
};

// Throws OutOfMemory if the limit is exceeded.
MemoryForecast forecast_memory(const MemoryTrace& trace, const MemorySpec& spec);

// Returns the peak of reserved bytes over consecutive epochs with staged training batches. Throws OutOfMemory if the
// limit is exceeded.
int64_t forecast_training(std::span<const ArrayBytes> arrays, const TrainingSteps& steps, const MemorySpec& spec);

}  // namespace runner::backends::gpu
