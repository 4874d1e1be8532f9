// Compiles Programs of a training once, and runs them on the device of one replica: where their memory suffices, and
// with the other replicas where a Program meets them.  Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/collectives/exchange.h"
#include "backends/plan/plan_cache.h"
#include "backends/runtime/spans.h"
#include "runner/train/step/counters.h"

namespace runner::train {

struct CompiledStep {
  std::shared_ptr<backends::Executable> executable;
  std::vector<backends::TracedScalar> rule_numbers = {};  // of a hook's update rules, as the step has recorded them
};
using SharedStep = std::shared_ptr<const CompiledStep>;

inline SharedStep compiled_step(std::shared_ptr<backends::Executable> executable,
                                std::vector<backends::TracedScalar> rule_numbers = {}) {
  return std::make_shared<const CompiledStep>(CompiledStep{std::move(executable), std::move(rule_numbers)});
}

class Executor {
 public:
  // `ranks`: null, or the replicas.  `counters`: of the windows, which errors name.  All must outlive it.
  Executor(backends::Device& device, backends::Collectives* ranks, const Counters& counters);

  backends::PlanCache<SharedStep>& cache() { return cache_; }
  const backends::PlanCache<SharedStep>& cache() const { return cache_; }

  // What a step may take beside the arrays; none, as at first: any amount.
  void set_memory(std::optional<int64_t> bytes) { memory_ = bytes; }
  const std::optional<int64_t>& memory() const { return memory_; }
  // Throws Error(kRun) where it needs more.  `name`: as below.
  void check_memory(std::string_view name, const backends::Executable& step,
                    backends::SpanKind kind = backends::SpanKind::kExecute) const;

  // Asked before each step that is compiled; throws where there are to be no more.  Empty, as at first: there may be.
  void set_halt(std::function<void()> halt) { halt_ = std::move(halt); }
  void ask_halt() const {
    if (halt_) halt_();
  }

  // Runs a step to its end; `name`: in traces and errors.
  void execute(std::string_view name, const CompiledStep& step, const backends::Arguments& arguments,
               backends::SpanKind kind = backends::SpanKind::kExecute);
  // The same; the device may be at work when it returns.
  backends::Ticket submit(std::string_view name, const CompiledStep& step, backends::Arguments arguments,
                          backends::SpanKind kind = backends::SpanKind::kExecute);

  // A value of a recording under way: its elements, and as they lie in memory.
  std::vector<double> read_value(const backends::Program& program, backends::ValueId value,
                                 const backends::Arguments& arguments);
  std::vector<std::byte> read_bytes(const backends::Program& program, backends::ValueId value,
                                    const backends::Arguments& arguments);

  // What the Programs of this replica meet the others by; null: there are none.
  backends::Exchange* exchange() { return exchange_ ? &*exchange_ : nullptr; }
  // Before a Program that meets others runs; `again`: as Exchange::begin says.
  void begin_exchange(bool again);
  // What is read from is dropped.
  void forget_exchanged();

  // Of a call in the window under way, where replicas meet.
  backends::Site site(std::string_view what) const { return {what, counters_.windows + 1}; }

 private:
  backends::Device& device_;
  const Counters& counters_;
  backends::PlanCache<SharedStep> cache_;
  std::optional<int64_t> memory_;
  std::optional<backends::Exchange> exchange_;
  std::function<void()> halt_;
};

}  // namespace runner::train
