// A Program as launches on an emulated GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backends/backend.h"
#include "backends/cpu/argument_slots.h"
#include "backends/gpu/streams.h"
#include "backends/plan/plan.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

class GpuExecutable : public Executable, public Launchable, public std::enable_shared_from_this<GpuExecutable> {
 public:
  explicit GpuExecutable(const Program& program);

  size_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t flops() const override { return plan_.flops; }
  int64_t bytes() const override { return plan_.bytes; }
  const Plan& plan() const { return plan_; }

  // What the launches work on from now on, with the batch where the device has it.  None must be under way.
  void bind(std::byte* arena, const Arguments& arguments, WorkerPool& pool);
  // Kernels, in order; behind them, where there is something to copy, one for the states.
  int32_t launches() const { return static_cast<int32_t>(plan_.steps.size() + !plan_.copies.empty()); }
  void launch(int32_t index) override;
  std::string describe(int32_t index) const override;
  // Behind which launches events are to be recorded.  Valid until the next call.
  static constexpr int32_t kBeforeAll = -1;
  std::span<const int32_t> last_writes(std::span<const Signal> signals);

  Ticket newest = 0;  // of its submissions

 private:
  void begin_span();
  // The launch that touches any of these bytes last; kBeforeAll: none does.
  int32_t last_write(int32_t state, size_t begin, size_t end) const;

  const Plan plan_;
  ArgumentSlots slots_;
  std::optional<PlanRun> run_;
  const SourceLines* lines_ = nullptr;
  std::string_view name_;
  SpanKind kind_{};
  std::optional<ScopedSpan> span_;  // from the first launch to the last
  std::vector<int32_t> last_writes_;
};

}  // namespace runner::backends::gpu
