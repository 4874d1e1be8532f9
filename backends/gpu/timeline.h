// Virtual clock of one emulated GPU and its host: predicted, not measured, time.
//
// A stream executes the host's commands in order. A launch begins when the stream has finished earlier commands, the
// launch has arrived from the host, and the events that the stream waits for are reached. Invariants:
// 1. Clocks never go back.
// 2. A stream's clock is the sum of its busy time, its unfed time, and its waits for each stream: every picosecond has
//    one cause.
// 3. Shifting all clocks changes no difference: equal steps that begin in equal situations take equal time, to the
//    picosecond.
// A call takes a few nanoseconds. Not thread-safe: one per device, called in the order of the host's calls.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/gpu/launch.h"
#include "backends/gpu/stream_kind.h"

namespace runner::backends::gpu {

// Host time per launch, and delay until a launch arrives; equal for all models. Sources: docs/gpu-model.md.
struct LaunchTimes {
  Picoseconds eager = to_picoseconds(6e-6);    // host time per eager launch
  Picoseconds replay = to_picoseconds(5e-6);   // host time per captured graph
  Picoseconds arrival = to_picoseconds(4e-6);  // delay from the host to an idle stream
};

// Time at which all earlier commands of the stream are complete.
struct PredictedEvent {
  StreamKind stream = StreamKind::kCompute;
  Picoseconds at = 0;
};

template <class Of>
using PerStream = std::array<Of, kStreamCount>;

// How a stream spent its time.
struct StreamTime {
  Picoseconds busy = 0;
  Picoseconds unfed = 0;            // idle: no pending command from the host
  PerStream<Picoseconds> waited{};  // idle: waiting for events of each stream

  StreamTime& operator+=(const StreamTime& other);
};

struct PredictedTime {
  Picoseconds elapsed = 0;  // of one or several steps
  PerStream<StreamTime> streams{};
  std::array<Picoseconds, kLaunchClassCount> classes{};  // busy time over all streams
  Picoseconds at_peak = 0;                               // time of the flops at their peak rates
  int64_t launches = 0;                                  // on the device
  int64_t host_launches = 0;                             // a captured graph counts as one

  PredictedTime& operator+=(const PredictedTime& other);

  const StreamTime& of(StreamKind stream) const { return streams[static_cast<size_t>(stream)]; }
  Picoseconds of(LaunchClass cls) const { return classes[static_cast<size_t>(cls)]; }
  // Time the compute stream waited for an all-reduce, and for a copy to the device.
  Picoseconds exposed_communication() const { return waited_by_compute(StreamKind::kCommunication); }
  Picoseconds exposed_copies() const { return waited_by_compute(StreamKind::kCopyIn); }
  // Fractions of the elapsed time: compute idle because the host was late; flops at their peak rates.
  double host_bound_share() const { return share(of(StreamKind::kCompute).unfed); }
  double peak_share() const { return share(at_peak); }

 private:
  Picoseconds waited_by_compute(StreamKind stream) const {
    return of(StreamKind::kCompute).waited[static_cast<size_t>(stream)];
  }
  double share(Picoseconds part) const;
};

// A launch on the predicted clock, for traces.
struct PredictedSpan {
  StreamKind stream;
  LaunchClass cls;
  std::string_view name;  // Launch::name
  int64_t flops, bytes;   // Launch::flops, …
  Picoseconds begin, end;
};

class Timeline {
 public:
  explicit Timeline(const LaunchTimes& times = {}) : times_(times) {}

  // Enqueues a launch.
  void launch(StreamKind stream, const Launch& launch);
  PredictedEvent record(StreamKind stream) const { return {stream, clocks_[static_cast<size_t>(stream)]}; }
  void wait(StreamKind stream, const PredictedEvent& event);

  // Launches in between form one captured graph, which the host launches once. The host must not synchronize in
  // between.
  void begin_replay();
  void end_replay();
  bool is_replaying() const { return replaying_; }

  // The host waits for an event, or for everything in a stream.
  void synchronize(const PredictedEvent& event);
  void synchronize(StreamKind stream) { synchronize(record(stream)); }

  Picoseconds host() const { return host_; }
  // Time at which everything enqueued is complete.
  Picoseconds done() const;

  // Returns the time since the last call; the clocks continue.
  PredictedTime take();

  // Appends every launch to `spans`, which must outlive the recording; null stops recording.
  void record_spans(std::vector<PredictedSpan>* spans) { spans_ = spans; }

 private:
  Picoseconds arrival() const { return host_ + times_.arrival; }
  void feed(StreamKind stream);

  const LaunchTimes times_;
  PerStream<Picoseconds> clocks_{};
  Picoseconds host_ = 0, taken_ = 0;
  bool replaying_ = false;
  PredictedTime time_;  // since taken_
  std::vector<PredictedSpan>* spans_ = nullptr;
};

}  // namespace runner::backends::gpu
