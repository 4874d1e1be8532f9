#include "backends/exec/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "backends/exec/host_execution.h"
#include "backends/exec/launch_schedule.h"
#include "backends/exec/plan.h"
#include "backends/runtime/affinity.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/spans.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

class CpuExecutable : public Executable {
 public:
  explicit CpuExecutable(Plan plan)
      : plan_(std::move(plan)),
        slots_(plan_.program),
        schedule_(plan_, launches_of(plan_), LaunchSchedule::Until::kUnused) {}

  size_t arena_bytes() const override { return plan_.arena_bytes; }
  int64_t flops() const override { return plan_.flops; }
  int64_t bytes() const override { return plan_.bytes; }
  const Plan& plan() const { return plan_; }
  ArgumentSlots& slots() { return slots_; }
  LaunchSchedule& schedule() { return schedule_; }

 private:
  const Plan plan_;
  ArgumentSlots slots_;
  LaunchSchedule schedule_;
};

// Returns what records the events of `signals` after the launches that they are due with; empty if there are none.
std::function<void(int32_t)> recorder(LaunchSchedule& schedule, std::span<const Signal> signals) {
  if (signals.empty()) return {};
  return [signals, due = schedule.find(signals)](int32_t launch) mutable {
    for (; !due.empty() && due.front().launch <= launch; due = due.subspan(1)) {
      auto* const event = dynamic_cast<CalledEvent*>(signals[static_cast<size_t>(due.front().bucket)].event);
      RUN_ASSERT(event != nullptr);
      event->record();
    }
  };
}

// All executables share one arena, since one runs at a time. It grows when an executable that needs more first runs.
class CpuDevice : public Device {
 public:
  CpuDevice(int threads, std::optional<int64_t> memory) : pool_(threads), memory_(memory) {}

  std::string_view name() const override { return "cpu"; }

  std::shared_ptr<Buffer> allocate(size_t bytes) override { return wrap(zeroed_memory(bytes), bytes); }

  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) override {
    return std::make_shared<HostBuffer>(std::move(memory), bytes);
  }

  void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) override {
    RUN_ASSERT(offset + source.size() <= buffer.bytes());
    const ScopedSpan span(SpanKind::kTransfer, "upload", {.bytes = static_cast<int64_t>(source.size())});
    if (!source.empty()) std::memcpy(static_cast<HostBuffer&>(buffer).data() + offset, source.data(), source.size());
  }

  void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) override {
    RUN_ASSERT(offset + target.size() <= buffer.bytes());
    const ScopedSpan span(SpanKind::kTransfer, "download", {.bytes = static_cast<int64_t>(target.size())});
    if (!target.empty())
      std::memcpy(target.data(), static_cast<const HostBuffer&>(buffer).data() + offset, target.size());
  }

  bool has_views() const override { return true; }

  std::span<const std::byte> view(const Buffer& buffer) const override {
    return {static_cast<const HostBuffer&>(buffer).data(), buffer.bytes()};
  }

  std::shared_ptr<Executable> compile(const Program& program) override {
    return std::make_shared<CpuExecutable>(build_plan(program));
  }

  Ticket submit(Executable& executable, const Submission& submission) override {
    auto& ready = static_cast<CpuExecutable&>(executable);
    has_written_states_ = false;
    std::optional<ScopedSpan> span;
    if (!submission.name.empty())
      span.emplace(submission.span, submission.name, SpanWork{.bytes = ready.bytes(), .flops = ready.flops()});
    arena_.grow_to(ready.arena_bytes());
    const std::function<void(int32_t)> record_after = recorder(ready.schedule(), submission.signals);
    if (record_after) record_after(kBeforeAll);
    run_plan(ready.plan(), ready.slots().bind(arena_.data(), submission), pool_, submission.lines, submission.exchange,
             &has_written_states_, record_after);
    return ++ticket_;
  }
  bool calls_events() const override { return true; }
  bool has_written_states() const override { return has_written_states_; }

  void read_output(Executable& executable, int index, std::span<std::byte> target) override {
    const Plan& plan = static_cast<CpuExecutable&>(executable).plan();
    const size_t offset = offset_of_output(plan, index, target.size());
    if (!target.empty()) std::memcpy(target.data(), arena_.data() + offset, target.size());
  }

  void wait(Ticket) override {}
  void synchronize() override {}

  std::optional<int64_t> memory_limit() const override { return memory_; }
  size_t temporary_bytes() const override { return arena_.bytes(); }
  void release_temporary() override { arena_ = Arena(); }

 private:
  WorkerPool pool_;
  const std::optional<int64_t> memory_;
  Arena arena_;
  Ticket ticket_ = 0;
  bool has_written_states_ = false;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads, std::optional<int64_t> memory) {
  return std::make_unique<CpuDevice>(threads > 0 ? threads : usable_cores(), memory);
}

PlanImage image_of(const Executable& executable) {
  const Plan& plan = static_cast<const CpuExecutable&>(executable).plan();
  return {plan.program, plan.offsets};
}

std::shared_ptr<Executable> restore_executable(PlanImage image) {
  return std::make_shared<CpuExecutable>(restore_plan(std::move(image)));
}

}  // namespace runner::backends
