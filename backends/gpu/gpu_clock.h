// Predicted time of one emulated GPU and its host: replays the host's calls on a Timeline.
//
// The host is predicted to wait where it reads and, with launch_blocking, after each launch. Waits that only the
// emulation needs, such as those for weights that ranks share, do not count. All ranks are assumed to be alike: what
// this one has computed is available on the others at the same time. Thread safety: only for the host's thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/gpu/gpu_step.h"
#include "backends/gpu/timeline.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

class GpuClock {
 public:
  struct Options {
    GpuMachine machine = {};
    bool launch_blocking = false;
  };
  // Adds tracks to the trace of the calling thread, if it is recorded.
  explicit GpuClock(const Options& options);

  // Batch inputs copied before the submission that reads them.
  struct StagedInputs {
    PredictedEvent done;
    std::vector<int64_t> bytes;  // size of each input; 0: not copied
  };
  // Stages those inputs that a step like `like` reads. `bytes`: size of each input.
  StagedInputs stage(const ModelledStep& like, std::vector<int64_t> bytes);

  struct Submission {
    // Gradients to all-reduce, bucket by bucket, each after the launch that computes its last part. After the launches
    // the compute stream waits for all of them, as DistributedDataParallel does at the end of backward.
    std::span<const ReducedBytes> reduced = {};
    bool replays = false;                  // the launches are one captured graph
    const StagedInputs* staged = nullptr;  // null: nothing is staged
  };
  // A submission to the compute stream.
  void compute(ModelledStep& step, const Submission& submission);

  // Transfers after all computed work, for which the host waits. A small number read directly after another is free,
  // since both arrive together.
  void upload(int64_t bytes);
  void download(int64_t bytes);

  // Returns the time since the last call.
  PredictedTime take() { return timeline_.take(); }

 private:
  void copy_batch(const ModelledStep& step, const StagedInputs* staged);
  void launch_all(const ModelledStep& step, std::span<const LaunchSchedule::Due> due);
  void reduce(const Launch& collective);
  void wait_for_reductions();
  void launch(StreamKind stream, const Launch& launch);
  void copy(StreamKind stream, int64_t bytes);
  void begin_call();
  void end_call();

  const Options options_;
  Timeline timeline_;
  SpanRecorder* const recorder_;  // null: no trace is recorded
  std::array<int, kStreamCount> tracks_{};
  uint64_t round_ = 0;        // recording round of recorder_
  int64_t began_ns_ = 0;      // start of the round on the real clock
  Picoseconds began_at_ = 0;  // start of the round on this clock
  std::vector<PredictedSpan> spans_;
  bool has_numbers_ = false;  // whether the host has current numbers from a small download
};

}  // namespace runner::backends::gpu
