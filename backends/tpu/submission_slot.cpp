#include "backends/tpu/submission_slot.h"

#include <algorithm>
#include <utility>

#include "backends/runtime/spans.h"

namespace runner::backends::tpu {

SubmissionSlot::SubmissionSlot(Device& host, MetricsRegistry& metrics, bool own_thread)
    : host_(host), metrics_(metrics) {
  if (own_thread) thread_.emplace([this] { run_on_thread(); }, "device");
}

SubmissionSlot::~SubmissionSlot() = default;

void SubmissionSlot::begin(std::shared_ptr<Executable> executable, const Submission& submission, Counts counts,
                           bool waits) {
  wait();
  executable_ = std::move(executable);
  counts_ = counts;
  if (waits || !hands_over()) {
    run(submission);
  } else {
    copy(submission);
    handed_over_ = true;
    thread_->start();
  }
  if (!waits) begun_ns_ = monotonic_ns();
}

// After the thread has started late, a number of submissions are not handed over, doubled each time in a row.
bool SubmissionSlot::hands_over() {
  if (!thread_ || host_work_ns_ < kWorthAHandOver) return false;
  if (kept_ == 0) return true;
  --kept_;
  return false;
}

void SubmissionSlot::note_host_work() {
  if (begun_ns_ == 0) return;
  const int64_t work = std::min(monotonic_ns() - std::exchange(begun_ns_, 0), kMaxWork);
  host_work_ns_ += (work - host_work_ns_) / 8;
}

void SubmissionSlot::end_parts() {
  parts_end_ = true;
  if (!thread_ || !thread_->is_busy()) finish();
}

void SubmissionSlot::finish() {
  if (thread_) {
    note_host_work();
    if (std::exchange(handed_over_, false)) kept_ = late_ = thread_->finish() ? 0 : std::min(2 * late_ + 1, kMaxKept);
  }
  if (std::exchange(parts_end_, false)) metrics_.add(XlaMetric::kExecuteTime, std::exchange(parts_ns_, 0));
}

void SubmissionSlot::wait() {
  finish();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void SubmissionSlot::lock() {
  if (!thread_ || !thread_->is_busy()) return wait();
  const int64_t begin = monotonic_ns();
  finish();
  lock_wait_ns_ += monotonic_ns() - begin;
  wait();
}

void SubmissionSlot::count_lock_wait() {
  metrics_.add(XlaMetric::kDeviceLockWait, std::exchange(lock_wait_ns_, 0));
}

void SubmissionSlot::copy(const Submission& submission) {
  states_.assign(submission.states.begin(), submission.states.end());
  batch_.assign(submission.batch.begin(), submission.batch.end());
  scalars_.assign(submission.scalars.begin(), submission.scalars.end());
  submission_ = submission;
  submission_.states = states_;
  submission_.batch = batch_;
  submission_.scalars = scalars_;
}

void SubmissionSlot::run(const Submission& submission) {
  const int64_t begin = monotonic_ns();
  const auto count = [&] {
    const int64_t end = monotonic_ns();
    if (counts_ == Counts::kWhole) metrics_.add(XlaMetric::kExecuteTime, end - begin, end);
    if (counts_ == Counts::kPart) parts_ns_ += end - begin;
  };
  try {
    host_.submit(*executable_, submission);
  } catch (...) {
    count();
    throw;
  }
  count();
}

void SubmissionSlot::run_on_thread() {
  try {
    run(submission_);
  } catch (...) {
    error_ = std::current_exception();
  }
}

}  // namespace runner::backends::tpu
