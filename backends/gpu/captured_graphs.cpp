#include "backends/gpu/captured_graphs.h"

#include <fmt/format.h>

#include "backends/graph/difference.h"

namespace runner::backends::gpu {
namespace {

constexpr int64_t kLaunchedFirst = 2;  // submissions before one is captured

}  // namespace

bool CapturedGraphs::submit(GpuExecutable& executable, const Arguments& arguments) {
  Named& named = by_name_[arguments.name];
  if (executable.submissions++ < kLaunchedFirst) {
    if (named.captured == nullptr) return false;
    ++counters_.fallbacks;
    if (!std::exchange(named.warned, true))
      warnings_.push_back(fmt::format(
          "gpu.capture: \"{}\" of batch {} is not the graph that was captured, and is launched operation by "
          "operation until it has come twice: {}",
          arguments.name, arguments.step,
          difference_text(named.captured->account().plan().program, executable.account().plan().program)));
    return false;
  }
  if (executable.submissions == kLaunchedFirst + 1) {
    ++counters_.graphs;
    named.captured = executable.shared_from_this();
  }
  ++counters_.replays;
  return true;
}

}  // namespace runner::backends::gpu
