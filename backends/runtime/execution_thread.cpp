#include "backends/runtime/execution_thread.h"

#include <chrono>
#include <utility>

#include "backends/runtime/spans.h"
#include "backends/runtime/spin.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// Longer than the gap between two small steps.
constexpr auto kSpinTime = std::chrono::microseconds(50);

}  // namespace

ExecutionThread::ExecutionThread(std::function<void()> job, std::string name) : job_(std::move(job)) {
  thread_ = std::thread([this, name = std::move(name), recorder = RecordingThread::recorder()] {
    const RecordingThread recording(recorder, name);
    work();
  });
}

ExecutionThread::~ExecutionThread() {
  finish();
  set_state(kStopped);
  thread_.join();
}

void ExecutionThread::start() {
  RUN_ASSERT(!is_busy());
  set_state(kStarted);
}

bool ExecutionThread::finish() {
  if (run_if_started()) return false;
  while (is_busy()) wait_for_change(kRunning);
  return true;
}

void ExecutionThread::set_state(State state) {
  state_.store(state, std::memory_order_release);
  changed_.notify_all();
}

// Returns when the state is no longer `seen`; spins first, then sleeps.
void ExecutionThread::wait_for_change(State seen) {
  const auto has_changed = [&] { return state_.load(std::memory_order_acquire) != seen; };
  if (!spin_until(has_changed, kSpinTime)) changed_.wait_until(has_changed);
}

// Called by both threads; the first one runs the job.
bool ExecutionThread::run_if_started() {
  State expected = kStarted;
  if (!state_.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return false;
  job_();
  set_state(kIdle);
  return true;
}

void ExecutionThread::work() {
  while (true) {
    if (run_if_started()) continue;
    const State seen = state_.load(std::memory_order_acquire);
    if (seen == kStopped) return;
    if (seen != kStarted) wait_for_change(seen);
  }
}

}  // namespace runner::backends
