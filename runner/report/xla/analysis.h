// Analyses a metrics report: steps and compilations, idle time, consistency of the counts, and recommendations.
//
// The thresholds are those of PyTorch/XLA's own analysis (PT_XLA_DEBUG=1). Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/xla/metrics_report.h"
#include "schema/base/json.h"

namespace runner::report::xla {

// Times are in nanoseconds.
struct Cadence {
  int64_t steps = 0;
  bool steps_are_marked = false;  // steps are counted by MarkStep; otherwise steps are executions
  int64_t executions = 0;
  bool is_eager = false;                         // an execution is that of a single operation
  std::optional<int64_t> compiles;               // nullopt: the report does not count them
  std::optional<double> compile_ns, execute_ns;  // totals; nullopt if a sum could not be read
  // Rates of the last executions. nullopt if there were fewer than ten, or the report has no rates.
  std::optional<double> period_ns;   // time between two executions
  std::optional<double> running_ns;  // time of it in which the device executes
  std::optional<double> waiting_ns;  // time of it in which the host waits for the device: DeviceLockWait

  // nullopt if the report has no steps or no compilations.
  std::optional<double> compiles_per_step() const;
};

// Counts that torch_xla increments together.
struct Identity {
  std::string text;     // "CompileTime samples = UncachedCompile"
  std::string figures;  // "5 = 5"
  bool holds = false;
};

// The part that limits the speed.
enum class Pace { kUnknown, kCompiler, kHost, kDevice, kBoth };
std::string_view name_of(Pace pace);

struct Verdict {
  Pace pace = Pace::kUnknown;
  std::string text;  // one sentence with reason and consequence
};

// A recommendation.
struct Finding {
  std::string_view id;
  std::string text;    // the value and the threshold that it exceeds
  std::string advice;  // what to do
};

struct Analysis {
  Cadence cadence;
  std::vector<Identity> identities;  // only identities whose counts are in the report
  Verdict verdict;
  std::vector<Finding> findings;
};

Analysis analysis_of(const MetricsReport& report);

// {"steps", "steps_are", "executions", "executions_are", "compiles", "compiles_per_step", "period", "running",
// "waiting", "pace", "verdict", "identities", "findings"}. Times are in nanoseconds.
json::Object analysis_json(const Analysis& analysis);

}  // namespace runner::report::xla
