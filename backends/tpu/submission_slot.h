// What a device computes while its host traces on: one submission at a time, with a copy of its arguments.
//
// PyTorch/XLA holds a lock for each device while a graph runs on it, and who launches the next one waits for the lock.
// Here the slot is the lock.  A submission runs on a thread of the slot's or, where that would gain nothing, on the one
// that submits: where the process has no core for it, where the host waits for it at once, where the host has had
// little to do between the last submissions, and where cores were too busy to begin the last ones.  What is computed
// does not depend on it.  Thread safety: one thread at a time calls it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "backends/runtime/execution_thread.h"
#include "backends/tpu/metrics.h"

namespace runner::backends::tpu {

class SubmissionSlot {
 public:
  // Both must outlive it.  `own_thread`: there is one.
  SubmissionSlot(Device& host, DeviceMetrics& metrics, bool own_thread);
  ~SubmissionSlot();

  bool has_thread() const { return thread_.has_value(); }

  // Whose time an execution of a graph is.
  enum class Counts { kNothing, kWhole, kPart };
  // Waits for the submission before, and begins one.  `waits`: returns when it is done.  Throws what either has thrown.
  void begin(std::shared_ptr<Executable> executable, const Arguments& arguments, Counts counts, bool waits);
  // The parts so far, the one under way included, are one execution.
  void end_parts();

  // Returns when nothing is under way.
  void finish();
  // The same; throws, once, what the submission has thrown.
  void wait();
  // The same; what it took is part of the next wait for the lock that is counted.
  void lock();
  void count_lock_wait();

 private:
  static constexpr int64_t kMostWork = 1'000'000;  // ns; more is no reason to expect more
  static constexpr int64_t kMostKept = 255;
  static constexpr int64_t kWorthAHandOver = 15'000;  // ns: what it costs, and what memory costs another core

  bool hands_over();
  void note_host_work();
  void copy(const Arguments& arguments);
  // Throws what the submission throws.
  void run(const Arguments& arguments);
  void run_on_thread();

  Device& host_;
  DeviceMetrics& metrics_;
  // Of what is under way.
  std::shared_ptr<Executable> executable_;
  Counts counts_ = Counts::kNothing;
  Arguments arguments_;  // which refer to these
  std::vector<Buffer*> states_;
  std::vector<const std::byte*> batch_;
  std::vector<double> scalars_;
  std::exception_ptr error_;

  bool handed_over_ = false;          // what is under way
  int64_t begun_ns_ = 0;              // when the host could go on behind the newest; 0: it has been seen to wait since
  int64_t host_work_ns_ = kMostWork;  // between two submissions, a mean of the last ones
  int64_t late_ = 0, kept_ = 0;       // as often was the thread late, in a row; submissions that it is still not given
  int64_t parts_ns_ = 0;
  bool parts_end_ = false;
  int64_t lock_wait_ns_ = 0;
  std::optional<ExecutionThread> thread_;  // last: it uses all of the above
};

}  // namespace runner::backends::tpu
