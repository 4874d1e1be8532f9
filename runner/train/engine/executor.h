// Compiles the Programs of a training run once each and runs them on the device of one rank. Checks their memory and
// runs their collectives. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/exchange.h"
#include "backends/exec/plan_cache.h"
#include "backends/runtime/spans.h"
#include "runner/train/step/counters.h"

namespace runner::train {

struct CompiledStep {
  std::shared_ptr<backends::Executable> executable;
  std::vector<backends::TracedScalar> rule_numbers = {};  // scalars that a hook's update rules recorded in this step
  int lost_output = -1;                                   // see output_lost_gradient(); -1 if it has none
};
using SharedStep = std::shared_ptr<const CompiledStep>;

inline SharedStep compiled_step(std::shared_ptr<backends::Executable> executable,
                                std::vector<backends::TracedScalar> rule_numbers = {}, int lost_output = -1) {
  return std::make_shared<const CompiledStep>(
      CompiledStep{std::move(executable), std::move(rule_numbers), lost_output});
}

// A submission with what the user's code does in it.
struct StepSubmission : backends::Submission {
  backends::SubmissionInfo info;
};

class Executor {
 public:
  // `ranks`: process group, or null for a single process. `counters`: give the step number for error messages. All must
  // outlive the object.
  Executor(backends::ModelledDevice& device, backends::ProcessGroup* ranks, const Counters& counters);

  backends::PlanCache<SharedStep>& cache() { return cache_; }
  const backends::PlanCache<SharedStep>& cache() const { return cache_; }

  // Sets the memory that a step may use in addition to the arrays; none, the default, for no limit.
  void set_memory(std::optional<int64_t> bytes) { memory_ = bytes; }
  const std::optional<int64_t>& memory() const { return memory_; }
  // Throws Error(kRun) if the step needs more. `name`: see execute().
  void check_memory(std::string_view name, const backends::Executable& step,
                    backends::SpanKind kind = backends::SpanKind::kExecute) const;

  // `halt` is called before each compilation and throws to stop it. Empty, the default, never stops.
  void set_halt(std::function<void()> halt) { halt_ = std::move(halt); }
  void check_halt() const {
    if (halt_) halt_();
  }

  // Runs a step and waits until it is done. `name`: for traces and errors.
  void execute(std::string_view name, const CompiledStep& step, const StepSubmission& submission,
               backends::SpanKind kind = backends::SpanKind::kExecute);
  // Like execute(), but may return while the device is still running.
  backends::Ticket submit(std::string_view name, const CompiledStep& step, StepSubmission submission,
                          backends::SpanKind kind = backends::SpanKind::kExecute);

  // Computes a value of the recording in progress and returns its elements, or its bytes in memory. `name`: of the
  // output.
  std::vector<double> read_value(const backends::Program& program, backends::ValueId value,
                                 const StepSubmission& submission, std::string_view name = backends::kReadItem);
  std::vector<std::byte> read_bytes(const backends::Program& program, backends::ValueId value,
                                    const StepSubmission& submission, std::string_view name = backends::kReadItem);

  // Returns the exchange that runs the collectives of this rank's Programs; null for a single process.
  backends::Exchange* exchange() { return exchange_ ? &*exchange_ : nullptr; }
  // Call before a Program with collectives runs. `again`: see Exchange::begin().
  void begin_exchange(bool again);
  // Drops the recording that values were read from; see Exchange::discard_recording().
  void forget_exchanged();

  // Identifies a collective of the current optimizer step.
  backends::Site site(std::string_view what) const { return {what, counters_.steps + 1}; }

 private:
  backends::ModelledDevice& device_;
  const Counters& counters_;
  backends::PlanCache<SharedStep> cache_;
  std::optional<int64_t> memory_;
  std::optional<backends::Exchange> exchange_;
  std::function<void()> halt_;
};

}  // namespace runner::train
