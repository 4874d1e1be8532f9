// Decides which submissions to an emulated GPU are replays of captured graphs (CUDA graphs).
//
// An Executable runs eagerly twice and is captured at its third submission. A step has changed, and falls back to eager
// launches, in two cases: another Executable of the same name was captured before it, or many Executables of its name
// ran and none came three times. Executables are found by the hash of their recording, so a changed graph is another
// Executable and a stale capture is never replayed. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/gpu/gpu_device.h"
#include "backends/gpu/gpu_step.h"
#include "backends/gpu/memory_model.h"

namespace runner::backends::gpu {

class CapturedGraphs {
 public:
  // `device`: for messages, "gpu 0". `captures`: gpu.capture; if false, nothing is captured.
  CapturedGraphs(std::string device, bool captures) : device_(std::move(device)), captures_(captures) {}

  // Identifies a submission for warnings.
  struct LaunchInfo {
    std::string_view name;  // Submission::name
    int64_t batch;          // SubmissionInfo::step
    bool evaluates = false;
  };

  // Whether the next submission is a replay, and which memory pools it uses.
  bool replays(const GpuStep& step) const;
  StepPools pools(const GpuStep& step) const;
  // Counts a submission whose memory has been allocated.
  void count(GpuStep& step, const LaunchInfo& launched);

  // Returns nullopt if capture is off.
  std::optional<CaptureCounters> counters() const { return captures_ ? std::make_optional(counters_) : std::nullopt; }
  // One warning per name and line, at the first fallback.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  struct NamedSteps {
    std::shared_ptr<GpuStep> captured;  // the newest; null: none yet
    std::shared_ptr<GpuStep> launched;  // the newest, until one is captured
    int64_t launches = 0;               // until one is captured
    int64_t first_step = 0;             // training batch of the first of them
    bool warned = false;
  };
  // Graphs recorded at another line serve another purpose, such as another read of a hook, and do not compete. Nor do
  // those of training and of evaluations, which may read values at one line.
  struct Key {
    std::string_view name;  // Submission::name
    std::string file;       // file and line of the first output
    int line = 0;
    bool evaluates = false;
    bool operator<(const Key& other) const {
      return std::tie(name, file, line, evaluates) < std::tie(other.name, other.file, other.line, other.evaluates);
    }
  };
  static Key key_of(const GpuStep& step, const LaunchInfo& launched);

  bool has_changed(const NamedSteps& named, const GpuStep& step, const LaunchInfo& launched) const;
  void warn(NamedSteps& named, const GpuStep& step, const LaunchInfo& launched);

  const std::string device_;
  const bool captures_;
  CaptureCounters counters_;
  std::map<Key, NamedSteps> by_name_;
  // Executables first submitted after another of their name was captured. A freed Executable's address may be reused;
  // the first submission of an Executable sets or clears its entry.
  std::set<const GpuStep*> changed_;
  std::vector<std::string> warnings_;
};

}  // namespace runner::backends::gpu
