// What a metrics report says of a training: steps and compiles, what is idle, what must fit together, what to change.
//
// The thresholds are those of PyTorch/XLA's own analysis (PT_XLA_DEBUG=1).  Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/xla/metrics_report.h"
#include "schema/json.h"

namespace runner::report::xla {

// Times in nanoseconds.
struct Cadence {
  int64_t steps = 0;
  bool steps_are_marked = false;  // by MarkStep; else they are executions
  int64_t executions = 0;
  bool is_eager = false;                         // an execution is that of one operation
  std::optional<int64_t> compiles;               // none: nothing in the report counts them
  std::optional<double> compile_ns, execute_ns;  // all of them; none: a sum could not be read
  // Of the last executions; none where there were fewer than ten, or the report has no rate of them.
  std::optional<double> period_ns;   // from one to the next
  std::optional<double> running_ns;  // of it, the device was at work
  std::optional<double> waiting_ns;  // and the host waited for the device: DeviceLockWait

  // None: the report tells of no step, or of no compilation.
  std::optional<double> compiles_per_step() const;
};

// Counts that torch_xla moves together.
struct Identity {
  std::string text;     // "CompileTime samples = UncachedCompile"
  std::string figures;  // "5 = 5"
  bool holds = false;
};

// What the others wait for.
enum class Pace { kUnknown, kCompiler, kHost, kDevice, kBoth };
std::string_view name_of(Pace pace);

struct Verdict {
  Pace pace = Pace::kUnknown;
  std::string text;  // a sentence: why, and what follows
};

// Something to change.
struct Finding {
  std::string_view id;
  std::string text;    // the figure, and the threshold that it is above
  std::string advice;  // what to do
};

struct Analysis {
  Cadence cadence;
  std::vector<Identity> identities;  // those whose counts are in the report
  Verdict verdict;
  std::vector<Finding> findings;
};

Analysis analysis_of(const MetricsReport& report);

// {"steps", "steps_are", "executions", "executions_are", "compiles", "compiles_per_step", "period", "running",
// "waiting", "pace", "verdict", "identities", "findings"}: times in nanoseconds.
json::Object analysis_json(const Analysis& analysis);

}  // namespace runner::report::xla
