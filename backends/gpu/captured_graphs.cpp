#include "backends/gpu/captured_graphs.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/ir/print.h"

namespace runner::backends::gpu {
namespace {

// Launches of one name, spread over several batches, after which one should have repeated. An epoch has up to six kinds
// of micro-batches: first, middle and last of an optimizer step, each in full and in reduced size.
constexpr int64_t kPatience = 12;

}  // namespace

bool CapturedGraphs::replays(const GpuStep& step) const {
  return is_captured(step.modelled().memory().runs(), captures_);
}

StepPools CapturedGraphs::pools(const GpuStep& step) const {
  return pools_of_run(step.modelled().memory().runs(), captures_);
}

void CapturedGraphs::count(GpuStep& step, const LaunchInfo& launched) {
  if (!captures_) return;
  const int64_t runs_before = step.modelled().memory().runs() - 1;
  if (runs_before > kRunsBeforeCapture) {  // steady state, without a lookup
    ++counters_.replays;
    return;
  }
  NamedSteps& named = by_name_[key_of(step, launched)];
  if (runs_before == 0) changed_.erase(&step);
  if (runs_before == 0 && named.captured != nullptr) changed_.insert(&step);
  if (runs_before == kRunsBeforeCapture) {
    ++counters_.graphs;
    named.captured = step.shared_from_this();
    named.launched = nullptr;
    ++counters_.replays;
    return;
  }
  if (has_changed(named, step, launched)) {
    ++counters_.fallbacks;
    if (!std::exchange(named.warned, true)) warn(named, step, launched);
  }
  if (named.captured != nullptr) return;
  if (named.launches++ == 0) named.first_step = launched.batch;
  named.launched = step.shared_from_this();
}

CapturedGraphs::Key CapturedGraphs::key_of(const GpuStep& step, const LaunchInfo& launched) {
  const Program& program = step.modelled().plan().program;
  const SourceMark& line = program.outputs().empty() ? SourceMark() : program.mark_of(program.outputs()[0].value);
  return {launched.name, line.file, line.line, launched.evaluates};
}

bool CapturedGraphs::has_changed(const NamedSteps& named, const GpuStep& step, const LaunchInfo& launched) const {
  if (named.captured != nullptr) return changed_.contains(&step);
  const bool is_new = step.modelled().memory().runs() == 1;
  return is_new && named.launches >= kPatience && launched.batch != named.first_step;
}

void CapturedGraphs::warn(NamedSteps& named, const GpuStep& step, const LaunchInfo& launched) {
  const bool was_captured = named.captured != nullptr;
  const Program& before = (was_captured ? named.captured : named.launched)->modelled().plan().program;
  const Program& now = step.modelled().plan().program;
  const ValueId node = first_difference(before, now);
  const SourceMark& line = now.mark_of(std::min(node, now.size() - 1));
  const std::string why =
      was_captured ? "differs from the captured graph and runs eagerly until it has run twice"
                   : fmt::format("runs eagerly, like the {} before it: none ran three times", named.launches);
  warnings_.push_back(fmt::format("gpu.capture: {}{}: \"{}\" of batch {} {}: {}", device_,
                                  line.known() ? fmt::format(", {}", line.to_string()) : "", launched.name,
                                  launched.batch, why, difference_text(before, now)));
}

}  // namespace runner::backends::gpu
