// A Program as launches on an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/argument_slots.h"
#include "backends/gpu/accounted_step.h"
#include "backends/gpu/batch_reads.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/streams.h"
#include "backends/plan/plan.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

class GpuExecutable : public Executable, public Launchable, public std::enable_shared_from_this<GpuExecutable> {
 public:
  // `graph`: what a replica that shares nothing would compute in its place, which is what is accounted for.  Throws
  // OutOfMemory where the device, of that memory, has too little for it.
  GpuExecutable(const Program& program, const Program& graph, DeviceMemory& memory, const GpuMachine& machine);

  // That of a GPU; the arena is the Plan's.
  size_t arena_bytes() const override { return static_cast<size_t>(account_.memory_forecast().temporary()); }
  int64_t flops() const override { return plan_.flops; }
  int64_t bytes() const override { return plan_.bytes; }
  const Plan& plan() const { return plan_; }
  AccountedStep& account() { return account_; }
  const AccountedStep& account() const { return account_; }
  // What the launches read of a batch.
  std::span<const BatchRead> batch_reads() const { return batch_reads_; }

  // What the launches work on from now on, with the batch where the device has it.  None must be under way.
  void bind(std::byte* arena, const Arguments& arguments, WorkerPool& pool);
  // Kernels, in order; behind them, where there is something to copy, one for the states.
  int32_t launches() const { return static_cast<int32_t>(plan_.steps.size() + !plan_.copies.empty()); }
  void launch(int32_t index) override;
  std::string describe(int32_t index) const override;
  // Events are to be recorded behind launches (last_write.h): in the order of the launches.  Valid until the next call.
  struct DueSignal {
    int32_t launch;
    size_t signal;  // of those asked for
  };
  std::span<const DueSignal> due(std::span<const Signal> signals);

 private:
  void begin_span();

  const Plan plan_;
  const std::optional<Plan> graph_;  // that is accounted for, where it is another
  AccountedStep account_;
  const std::vector<BatchRead> batch_reads_;
  ArgumentSlots slots_;
  std::optional<PlanRun> run_;
  const SourceLines* lines_ = nullptr;
  std::string_view name_;
  SpanKind kind_{};
  std::optional<ScopedSpan> span_;     // from the first launch to the last
  std::vector<StateBytes> signalled_;  // that due_ are of
  std::vector<DueSignal> due_;
};

}  // namespace runner::backends::gpu
