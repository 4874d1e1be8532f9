#include "backends/runtime/spans.h"

#include <ctime>
#include <utility>

namespace runner::backends {

constinit thread_local RecordingThread::Here RecordingThread::here_;

std::string_view name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep: return "step";
    case SpanKind::kData: return "data";
    case SpanKind::kCompile: return "compile";
    case SpanKind::kExecute: return "execute";
    case SpanKind::kKernel: return "kernel";
    case SpanKind::kOptimizer: return "optimizer";
    case SpanKind::kTransfer: return "transfer";
    case SpanKind::kCollective: return "collective";
    case SpanKind::kEvaluation: return "evaluation";
    case SpanKind::kState: return "state";
  }
  return "";
}

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// ---- the recorder --------------------------------------------------------------------------------------------------

void SpanRecorder::begin() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  left_out_ = 0;
  round_.fetch_add(1, std::memory_order_relaxed);
  recording_.store(true, std::memory_order_relaxed);
}

std::vector<Span> SpanRecorder::end() {
  const std::lock_guard lock(mutex_);
  recording_.store(false, std::memory_order_relaxed);
  return std::exchange(spans_, {});
}

int SpanRecorder::add_thread(std::string name) {
  const std::lock_guard lock(mutex_);
  threads_.push_back(std::move(name));
  return static_cast<int>(threads_.size()) - 1;
}

int SpanRecorder::add_predicted(std::string name) {
  const int thread = add_thread(std::move(name));
  const std::lock_guard lock(mutex_);
  predicted_.push_back(thread);
  return thread;
}

void SpanRecorder::add(Span span, uint64_t round) {
  const std::lock_guard lock(mutex_);
  if (!is_recording() || round != this->round()) return;
  if (spans_.size() == most_) {
    ++left_out_;
  } else {
    spans_.push_back(std::move(span));
  }
}

std::vector<std::string> SpanRecorder::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_;
}

std::vector<int> SpanRecorder::predicted() const {
  const std::lock_guard lock(mutex_);
  return predicted_;
}

int64_t SpanRecorder::left_out() const {
  const std::lock_guard lock(mutex_);
  return left_out_;
}

// ---- threads and spans ---------------------------------------------------------------------------------------------

RecordingThread::RecordingThread(SpanRecorder* recorder, std::string name) : before_(here_) {
  here_ = {recorder, recorder != nullptr ? recorder->add_thread(std::move(name)) : 0};
}

RecordingThread::~RecordingThread() {
  here_ = before_;
}

void ScopedSpan::open(SpanRecorder& recorder, SpanKind kind, std::string_view name, const SpanWork& work) {
  recorder_ = &recorder;
  kind_ = kind;
  name_ = name;
  work_ = work;
  round_ = recorder.round();
  begin_ns_ = monotonic_ns();
}

void ScopedSpan::close() {
  const int64_t end_ns = monotonic_ns();
  recorder_->add({.kind = kind_,
                  .thread = RecordingThread::here_.thread,
                  .name = std::string(name_),
                  .begin_ns = begin_ns_,
                  .end_ns = end_ns,
                  .bytes = work_.bytes,
                  .flops = work_.flops,
                  .what = std::string(work_.what)},
                 round_);
}

}  // namespace runner::backends
