#include "backends/gpu/gpu_clock.h"

#include <fmt/format.h>

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

void GpuClock::upload(int64_t bytes) {
  has_numbers_ = false;
  copy(StreamKind::kCopyIn, bytes);
}

void GpuClock::download(int64_t bytes) {
  constexpr int64_t kNumber = 16;
  const bool is_number = bytes <= kNumber;
  if (is_number && has_numbers_) return;
  has_numbers_ = is_number;
  copy(StreamKind::kCopyOut, bytes);
}

GpuClock::StagedInputs GpuClock::stage(const ModelledStep& like, std::vector<int64_t> bytes) {
  begin_call();
  StagedInputs staged{.done = {}, .bytes = std::vector<int64_t>(bytes.size())};
  for (const TraceInput& read : like.batch()) {
    if (read.input >= bytes.size() || bytes[read.input] == 0) continue;
    staged.bytes[read.input] = bytes[read.input];
    launch(StreamKind::kCopyIn, host_copy(bytes[read.input], options_.machine));
  }
  staged.done = timeline_.record(StreamKind::kCopyIn);
  end_call();
  return staged;
}

void GpuClock::compute(ModelledStep& step, const Submission& submission) {
  begin_call();
  has_numbers_ = false;
  copy_batch(step, submission.staged);
  if (submission.replays) timeline_.begin_replay();
  launch_all(step, step.due(submission.reduced));
  if (submission.replays) timeline_.end_replay();
  if (submission.replays && options_.launch_blocking) timeline_.synchronize(StreamKind::kCompute);
  end_call();
}

// The batch is copied concurrently with earlier work of the compute stream.
void GpuClock::copy_batch(const ModelledStep& step, const StagedInputs* staged) {
  bool copies = false;
  for (const TraceInput& read : step.batch()) {
    if (staged != nullptr && read.input < staged->bytes.size() && staged->bytes[read.input] == read.bytes) continue;
    launch(StreamKind::kCopyIn, host_copy(read.bytes, options_.machine));
    copies = true;
  }
  if (copies) {
    timeline_.wait(StreamKind::kCompute, timeline_.record(StreamKind::kCopyIn));
  } else if (staged != nullptr && !step.batch().empty()) {
    timeline_.wait(StreamKind::kCompute, staged->done);
  }
}

void GpuClock::launch_all(const ModelledStep& step, std::span<const LaunchSchedule::Due> due) {
  size_t next = 0;
  const auto reduce_after = [&](int32_t launch) {
    for (; next < due.size() && due[next].launch <= launch; ++next)
      reduce(all_reduce(due[next].bytes, options_.machine));
  };
  reduce_after(kBeforeAll);
  for (size_t i = 0; i < step.launches().size(); ++i) {
    if (const Launch& launched = step.launches()[i]; launched.cls == LaunchClass::kCollective) {
      reduce(launched);
      wait_for_reductions();
    } else {
      launch(StreamKind::kCompute, launched);
    }
    reduce_after(static_cast<int32_t>(i));
  }
  if (!due.empty()) wait_for_reductions();
}

// The collective starts after the launches so far.
void GpuClock::reduce(const Launch& collective) {
  timeline_.wait(StreamKind::kCommunication, timeline_.record(StreamKind::kCompute));
  launch(StreamKind::kCommunication, collective);
}

// Later launches read the reduced values.
void GpuClock::wait_for_reductions() {
  timeline_.wait(StreamKind::kCompute, timeline_.record(StreamKind::kCommunication));
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

// A recording round begins at the same moment on both clocks.
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
    shown.flops = span.flops;
    shown.bytes = span.bytes;
    shown.begin_ns = on_real_clock(span.begin);
    shown.end_ns = on_real_clock(span.end);
    recorder_->add(std::move(shown), round_);
  }
  spans_.clear();
}

}  // namespace runner::backends::gpu
