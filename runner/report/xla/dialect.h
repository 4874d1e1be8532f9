// Converts a run's metrics report to the names and layout of an older PyTorch/XLA. Thread-safe.
#pragma once

#include "runner/report/xla/metrics_report.h"

namespace runner::report::xla {

// As printed by PyTorch/XLA 1.7: one block of metrics and one of counters, each sorted by name, with transfers to and
// from a server, and without metrics that were added later.
MetricsReport as_in_1_7(MetricsReport report);

}  // namespace runner::report::xla
