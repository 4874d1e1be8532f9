// A Program as launches on an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/exec/host_execution.h"
#include "backends/exec/launch_schedule.h"
#include "backends/exec/plan.h"
#include "backends/gpu/streams.h"
#include "backends/ir/program.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

// Inputs of at most this many bytes, such as a seed, are passed as kernel arguments; larger ones are copied.
inline constexpr int64_t kMaxLaunchBytes = 16;

struct BatchRead {
  size_t input = 0;     // index among the batch inputs
  size_t declared = 0;  // index into Program::inputs()
  int64_t bytes = 0;

  bool is_copied() const { return bytes > kMaxLaunchBytes; }
};

std::vector<BatchRead> batch_reads_of(const Program& program);

// One launch per recorded operation.
inline constexpr PlanBuildOptions kGpuLaunches{.fusion = Fusion::kFlat};

class GpuExecutable : public Executable, public Launchable {
 public:
  explicit GpuExecutable(const Program& program);

  size_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t flops() const override { return plan_.flops; }
  int64_t bytes() const override { return plan_.bytes; }
  const Plan& plan() const { return plan_; }
  // Batch inputs that the launches read.
  std::span<const BatchRead> batch_reads() const { return batch_reads_; }

  // Sets the arguments of the following launches; the batch is read from where the device has it. No launch may be in
  // flight.
  void bind(std::byte* arena, const Submission& submission, WorkerPool& pool);
  int32_t launches() const { return launches_of(plan_); }
  void launch(int32_t index) override;
  std::string describe(int32_t index) const override;
  // Returns the launches after which to record the events, in launch order; a bucket is the index of its signal. Valid
  // until the next call.
  std::span<const LaunchSchedule::Due> due(std::span<const Signal> signals) { return schedule_.find(signals); }

 private:
  void begin_span();

  const Plan plan_;
  const std::vector<BatchRead> batch_reads_;
  ArgumentSlots slots_;
  std::optional<PlanRun> run_;
  const SourceLines* lines_ = nullptr;
  std::string_view name_;
  SpanKind kind_{};
  std::optional<ScopedSpan> span_;  // open from the first launch to the last
  LaunchSchedule schedule_;
};

}  // namespace runner::backends::gpu
