// A run's metrics report under the names, and in the layout, of an older PyTorch/XLA.  Thread-safe.
#pragma once

#include "runner/report/xla/metrics_report.h"

namespace runner::report::xla {

// As PyTorch/XLA 1.7 prints it: one block of metrics and one of counters, each by name, transfers to and from a server,
// and nothing that came later.
MetricsReport as_in_1_7(MetricsReport report);

}  // namespace runner::report::xla
