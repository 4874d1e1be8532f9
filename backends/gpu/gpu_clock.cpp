#include "backends/gpu/gpu_clock.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/last_write.h"

namespace runner::backends::gpu {
namespace {

constexpr Picoseconds kNanosecond = 1000;

SpanKind kind_of(LaunchClass cls) {
  if (cls == LaunchClass::kCopy) return SpanKind::kTransfer;
  return cls == LaunchClass::kCollective ? SpanKind::kCollective : SpanKind::kKernel;
}

}  // namespace

GpuClock::GpuClock(const Options& options) : options_(options), recorder_(RecordingThread::recorder()) {
  for (size_t i = 0; i < kStreamCount && recorder_ != nullptr; ++i)
    tracks_[i] = recorder_->add_predicted(
        fmt::format("{} {}", row_of(options.machine.model).name, name_of(static_cast<StreamKind>(i))));
}

void GpuClock::compute(const AccountedStep& step, std::span<const EventCount> after, std::span<const Signal> signals,
                       bool replays) {
  begin_call();
  for (const EventCount& awaited : after)
    if (const auto& event = static_cast<const Event&>(*awaited.event); event.device() == options_.device)
      timeline_.wait(StreamKind::kCompute, event.predicted());
  for (const Launch& copy : step.batch_copies()) launch(StreamKind::kCopyIn, copy);
  if (!step.batch_copies().empty()) timeline_.wait(StreamKind::kCompute, timeline_.record(StreamKind::kCopyIn));
  find_due(step.plan(), signals);
  if (replays) timeline_.begin_replay();
  launch_all(step);
  if (replays) timeline_.end_replay();
  if (replays && options_.launch_blocking) timeline_.synchronize(StreamKind::kCompute);
  end_call();
}

void GpuClock::launch_all(const AccountedStep& step) {
  reduce_behind(kBeforeAll);
  for (size_t i = 0; i < step.launches().size(); ++i) {
    launch(StreamKind::kCompute, step.launches()[i]);
    reduce_behind(static_cast<int32_t>(i));
  }
}

// Copies of states come last.
void GpuClock::find_due(const Plan& plan, std::span<const Signal> signals) {
  due_.clear();
  const Event* bucket = nullptr;
  for (const Signal& signal : signals) {
    if (signal.reduced.state < 0) continue;
    const auto* event = static_cast<const Event*>(signal.event);
    if (event != bucket) due_.push_back({kBeforeAll, 0});
    bucket = event;
    int32_t last = last_write(plan, signal.reduced);
    if (last == static_cast<int32_t>(plan.steps.size())) last += static_cast<int32_t>(plan.copies.size()) - 1;
    due_.back().launch = std::max(due_.back().launch, last);
    due_.back().bytes += static_cast<int64_t>(signal.reduced.end - signal.reduced.begin);
  }
}

void GpuClock::reduce_behind(int32_t launch) {
  for (const Due& due : due_) {
    if (due.launch != launch) continue;
    timeline_.wait(StreamKind::kCommunication, timeline_.record(StreamKind::kCompute));
    this->launch(StreamKind::kCommunication, all_reduce(due.bytes, options_.machine));
  }
}

void GpuClock::communicate(std::span<const Signal> signals) {
  for (const Signal& signal : signals)
    static_cast<Event&>(*signal.event).set_predicted(timeline_.record(StreamKind::kCommunication));
}

void GpuClock::record(Event& event) {
  event.set_predicted(timeline_.record(StreamKind::kCompute));
}

void GpuClock::launch(StreamKind stream, const Launch& launch) {
  timeline_.launch(stream, launch);
  if (options_.launch_blocking && !timeline_.is_replaying()) timeline_.synchronize(stream);
}

void GpuClock::copy(StreamKind stream, int64_t bytes) {
  begin_call();
  timeline_.wait(stream, timeline_.record(StreamKind::kCompute));
  launch(stream, host_copy(bytes, options_.machine));
  timeline_.synchronize(stream);
  end_call();
}

// A round of the recorder begins at once on both clocks.
void GpuClock::begin_call() {
  if (recorder_ == nullptr || !recorder_->is_recording()) return;
  timeline_.record_spans(&spans_);
  if (round_ == recorder_->round()) return;
  round_ = recorder_->round();
  began_ns_ = monotonic_ns();
  began_at_ = timeline_.host();
}

void GpuClock::end_call() {
  timeline_.record_spans(nullptr);
  const auto on_real_clock = [this](Picoseconds at) { return began_ns_ + (at - began_at_) / kNanosecond; };
  for (const PredictedSpan& span : spans_) {
    Span shown;
    shown.kind = kind_of(span.cls);
    shown.thread = tracks_[static_cast<size_t>(span.stream)];
    shown.name = span.name;
    shown.begin_ns = on_real_clock(span.begin);
    shown.end_ns = on_real_clock(span.end);
    recorder_->add(std::move(shown), round_);
  }
  spans_.clear();
}

}  // namespace runner::backends::gpu
