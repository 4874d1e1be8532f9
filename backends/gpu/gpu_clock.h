// The predicted time of one emulated GPU and its host: what the calls of the host come to on a Timeline.
//
// The host is predicted to wait where it reads, and with launch_blocking for each launch; that the emulation waits
// elsewhere, for the weights that replicas have together, is its own affair.  Replicas are taken to be alike: what this
// one has is there at the others, too.  Thread safety: one thread at a time, the host's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/gpu/accounted_step.h"
#include "backends/gpu/timeline.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

class GpuClock {
 public:
  struct Options {
    std::string device = "gpu 0";
    GpuMachine machine = {};
    bool launch_blocking = false;
  };
  // In traces of the calling thread it has tracks.
  explicit GpuClock(const Options& options);

  // Inputs of a batch that are copied before a submission asks for them.
  struct StagedInputs {
    PredictedEvent done;
    std::vector<int64_t> bytes;  // by input; 0: it is not copied
  };
  // Of these, as many bytes by input, those that a step of this kind reads.
  StagedInputs stage(const AccountedStep& like, std::vector<int64_t> bytes);

  struct Submission {
    // Added up over all replicas, bucket by bucket, each behind the launch that has made the last of it; behind the
    // launches computing waits for that, as DistributedDataParallel has it wait at the end of backward.
    std::span<const ReducedBytes> reduced = {};
    bool replays = false;                  // the launches are one captured graph
    const StagedInputs* staged = nullptr;  // null: nothing
  };
  // A submission to the compute stream.
  void compute(AccountedStep& step, const Submission& submission);

  // Behind all that is computed; the host waits for it.  A number that is read right behind another comes with it.
  void upload(int64_t bytes);
  void download(int64_t bytes);

  // Since the last call.
  PredictedTime take() { return timeline_.take(); }

 private:
  void copy_batch(const AccountedStep& step, const StagedInputs* staged);
  void launch_all(const AccountedStep& step, std::span<const AccountedStep::Reduction> due);
  void reduce(const Launch& collective);
  void wait_for_reductions();
  void launch(StreamKind stream, const Launch& launch);
  void copy(StreamKind stream, int64_t bytes);
  void begin_call();
  void end_call();

  const Options options_;
  Timeline timeline_;
  SpanRecorder* const recorder_;  // null: nobody traces
  std::array<int, kStreamCount> tracks_{};
  uint64_t round_ = 0;        // of the recorder
  int64_t began_ns_ = 0;      // in it, on the real clock,
  Picoseconds began_at_ = 0;  // and on this one
  std::vector<PredictedSpan> spans_;
  bool has_numbers_ = false;  // the host, of what is done so far
};

}  // namespace runner::backends::gpu
