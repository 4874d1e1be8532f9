#include "backends/gpu/captured_graphs.h"

#include <fmt/format.h>

#include "backends/graph/difference.h"

namespace runner::backends::gpu {

bool CapturedGraphs::replays(const GpuExecutable& executable) const {
  return is_captured(executable.account().memory().runs(), captures_);
}

StepPools CapturedGraphs::pools(const GpuExecutable& executable) const {
  return pools_of_run(executable.account().memory().runs(), captures_);
}

void CapturedGraphs::count(GpuExecutable& executable, const Arguments& arguments) {
  if (!captures_) return;
  Named& named = by_name_[arguments.name];
  const int64_t runs_before = executable.account().memory().runs() - 1;
  if (runs_before == 0) changed_.erase(&executable);
  if (runs_before == 0 && named.captured != nullptr) changed_.insert(&executable);
  if (runs_before == kRunsBeforeCapture) {
    ++counters_.graphs;
    named.captured = executable.shared_from_this();
  }
  if (is_captured(runs_before, captures_)) {
    ++counters_.replays;
    return;
  }
  if (!changed_.contains(&executable)) return;
  ++counters_.fallbacks;
  if (std::exchange(named.warned, true)) return;
  warnings_.push_back(
      fmt::format("gpu.capture: \"{}\" of batch {} is not the graph that was captured, and is launched operation by "
                  "operation until it has come twice: {}",
                  arguments.name, arguments.step,
                  difference_text(named.captured->account().plan().program, executable.account().plan().program)));
}

}  // namespace runner::backends::gpu
