// Runs submissions concurrently with the host, one at a time, each with a copy of its arguments.
//
// PyTorch/XLA holds a lock per device while a graph runs on it, and the next launch waits for the lock. Here the slot
// is the lock. A submission runs on the slot's thread, or on the submitting thread if a hand-over would gain nothing:
//
// - The process has no core for the thread.
// - The host waits for the result at once.
// - The host has had little work between recent submissions.
// - Cores were too busy to start recent submissions.
//
// Results do not depend on the thread. Thread safety: one thread at a time calls it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/runtime/execution_thread.h"
#include "backends/tpu/metrics.h"

namespace runner::backends::tpu {

class SubmissionSlot {
 public:
  // `host` and `metrics` must outlive the slot. `own_thread`: whether the slot has a thread.
  SubmissionSlot(Device& host, MetricsRegistry& metrics, bool own_thread);
  ~SubmissionSlot();

  bool has_thread() const { return thread_.has_value(); }

  // How the run time of a submission counts as kExecuteTime: not at all, by itself, or as a part (see end_parts()).
  enum class Counts { kNothing, kWhole, kPart };
  // Waits for the previous submission and starts one. `waits`: return when it is complete. Throws what either
  // submission has thrown.
  void begin(std::shared_ptr<Executable> executable, const Submission& submission, Counts counts, bool waits);
  // Counts the parts so far, including the submission in flight, as one execution.
  void end_parts();

  // Waits until no submission is in flight.
  void finish();
  // Like finish(), but rethrows what the submission has thrown, once.
  void wait();
  // Like wait(); the time waited is added to the next count_lock_wait().
  void lock();
  void count_lock_wait();

 private:
  static constexpr int64_t kMaxWork = 1'000'000;  // ns; longer host work is capped
  static constexpr int64_t kMaxKept = 255;
  // Cost of handing over in ns, including memory traffic between cores.
  static constexpr int64_t kWorthAHandOver = 15'000;

  bool hands_over();
  void note_host_work();
  void copy(const Submission& submission);
  // Throws what the submission throws.
  void run(const Submission& submission);
  void run_on_thread();

  Device& host_;
  MetricsRegistry& metrics_;
  // The submission in flight.
  std::shared_ptr<Executable> executable_;
  Counts counts_ = Counts::kNothing;
  Submission submission_;  // refer to the following vectors
  std::vector<Buffer*> states_;
  std::vector<const std::byte*> batch_;
  std::vector<double> scalars_;
  std::exception_ptr error_;

  bool handed_over_ = false;         // whether the submission in flight runs on the thread
  int64_t begun_ns_ = 0;             // when the newest submission returned to the host; 0: the host has waited since
  int64_t host_work_ns_ = kMaxWork;  // host work between two submissions, moving average
  int64_t late_ = 0, kept_ = 0;      // late_: backoff after the thread started late, doubled each time in a row;
                                     // kept_: submissions that are still not handed over
  int64_t parts_ns_ = 0;
  bool parts_end_ = false;
  int64_t lock_wait_ns_ = 0;
  std::optional<ExecutionThread> thread_;  // last, since it uses all of the above
};

}  // namespace runner::backends::tpu
