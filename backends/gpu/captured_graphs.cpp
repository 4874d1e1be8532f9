#include "backends/gpu/captured_graphs.h"

#include <fmt/format.h>

#include "backends/graph/difference.h"

namespace runner::backends::gpu {

bool CapturedGraphs::replays(const GpuExecutable& executable) const {
  return is_captured(executable.submissions, captures_);
}

StepPools CapturedGraphs::pools(const GpuExecutable& executable) const {
  return pools_of_run(executable.submissions, captures_);
}

void CapturedGraphs::count(GpuExecutable& executable, const Arguments& arguments) {
  if (!captures_) return;
  Named& named = by_name_[arguments.name];
  const bool is_replay = replays(executable);
  if (executable.submissions == 0) executable.has_changed = named.captured != nullptr;
  if (executable.submissions == kRunsBeforeCapture) {
    ++counters_.graphs;
    named.captured = executable.shared_from_this();
  }
  ++executable.submissions;
  counters_.replays += is_replay;
  if (is_replay || !executable.has_changed) return;
  ++counters_.fallbacks;
  if (std::exchange(named.warned, true)) return;
  warnings_.push_back(
      fmt::format("gpu.capture: \"{}\" of batch {} is not the graph that was captured, and is launched operation by "
                  "operation until it has come twice: {}",
                  arguments.name, arguments.step,
                  difference_text(named.captured->account().plan().program, executable.account().plan().program)));
}

}  // namespace runner::backends::gpu
