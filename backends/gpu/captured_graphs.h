// Which submissions to an emulated GPU are captured graphs, which it launches as one, as CUDA graphs are replayed.
//
// An Executable is captured where it is submitted for the third time; the first two are launched operation by
// operation.  One that comes when another of its name has been captured is a step that has changed, and so is each of a
// name of which many were launched and none came three times.  Since Executables are found by the hash of what was
// recorded, nothing else is ever replayed in the place of one: another graph is another Executable.  Not thread-safe.
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

#include "backends/gpu/capture_counters.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/step_pools.h"

namespace runner::backends::gpu {

class CapturedGraphs {
 public:
  // device: "gpu 0"; captures: with gpu.capture; else nothing is ever captured.
  CapturedGraphs(std::string device, bool captures) : device_(std::move(device)), captures_(captures) {}

  // Whether the next submission is a replay, and which pools its memory is of.
  bool replays(const GpuExecutable& executable) const;
  StepPools pools(const GpuExecutable& executable) const;
  // Of a submission, when it has its memory.
  void count(GpuExecutable& executable, const Arguments& arguments);

  // None: nothing is captured.
  std::optional<CaptureCounters> counters() const { return captures_ ? std::make_optional(counters_) : std::nullopt; }
  // Of the first fallback of each name and line.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  struct Named {
    std::shared_ptr<GpuExecutable> captured;  // the newest; null: there is none yet
    std::shared_ptr<GpuExecutable> launched;  // the newest, until one is captured
    int64_t launches = 0;                     // until one is captured,
    int64_t first_step = 0;                   // and the batch of the first of them
    bool warned = false;
  };
  // What is recorded elsewhere is another graph for another purpose: a read of a hook's, on another line.
  struct Key {
    std::string_view name;  // Arguments::name
    std::string file;       // and line of what is computed
    int line = 0;
    bool operator<(const Key& other) const {
      return std::tie(name, file, line) < std::tie(other.name, other.file, other.line);
    }
  };
  static Key key_of(const GpuExecutable& executable, const Arguments& arguments);

  bool has_changed(const Named& named, const GpuExecutable& executable, const Arguments& arguments) const;
  void warn(Named& named, const GpuExecutable& executable, const Arguments& arguments);

  const std::string device_;
  const bool captures_;
  CaptureCounters counters_;
  std::map<Key, Named> by_name_;
  // That have come when another of their name had been captured.  One that is gone says nothing of who has its address
  // next: the first submission of each decides.
  std::set<const GpuExecutable*> changed_;
  std::vector<std::string> warnings_;
};

}  // namespace runner::backends::gpu
