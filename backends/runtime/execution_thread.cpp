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

// Returns when `state` differs from `seen`; spins first, then sleeps.
void wait_for_change(const std::atomic<uint32_t>& state, uint32_t seen) {
  const auto has_changed = [&] { return state.load(std::memory_order_acquire) != seen; };
  if (!spin_until(has_changed, kSpinTime)) state.wait(seen, std::memory_order_acquire);
}

}  // namespace

ExecutionThread::ExecutionThread(std::function<void()> job, std::string name) : job_(std::move(job)) {
  thread_ = std::thread([this, name = std::move(name), recorder = RecordingThread::recorder()] {
    const RecordingThread recording(recorder, name);
    work();
  });
}

ExecutionThread::~ExecutionThread() {
  finish();
  state_.store(kStopped, std::memory_order_release);
  state_.notify_all();
  thread_.join();
}

void ExecutionThread::start() {
  RUN_ASSERT(!is_busy());
  state_.store(kStarted, std::memory_order_release);
  state_.notify_all();
}

bool ExecutionThread::finish() {
  if (run_if_started()) return false;
  while (is_busy()) wait_for_change(state_, kRunning);
  return true;
}

// Called by both threads; the first one runs the job.
bool ExecutionThread::run_if_started() {
  uint32_t expected = kStarted;
  if (!state_.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return false;
  job_();
  state_.store(kIdle, std::memory_order_release);
  state_.notify_all();
  return true;
}

void ExecutionThread::work() {
  while (true) {
    if (run_if_started()) continue;
    const uint32_t seen = state_.load(std::memory_order_acquire);
    if (seen == kStopped) return;
    if (seen != kStarted) wait_for_change(state_, seen);
  }
}

}  // namespace runner::backends
