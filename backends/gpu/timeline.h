// The virtual clock of one emulated GPU and of the host that feeds it: predicted time, which nothing measures.
//
// A stream works off what the host issued into it, in order; a launch begins when the stream has done what stands
// before it, the launch has arrived from the host, and the events are there that the stream waits for.  Invariants:
// 1. clocks never go back; 2. since the beginning a stream's clock is its busy time + the time it was unfed + what it
// waited for each stream: every picosecond has one cause; 3. shifting all clocks changes no difference: equal steps
// that begin alike take equally long, to the picosecond. A few nanoseconds a call.  Not thread-safe: one per device,
// used in the order of the host's calls.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "backends/gpu/launch.h"
#include "backends/gpu/stream_kind.h"

namespace runner::backends::gpu {

// How long the host takes to launch, and a launch to arrive; alike for all models.  Sources: docs/gpu-model.md.
struct LaunchTimes {
  Picoseconds eager = to_picoseconds(6e-6);    // of the host, for each launch that is no part of a graph
  Picoseconds replay = to_picoseconds(5e-6);   // of the host, for a captured graph as a whole
  Picoseconds arrival = to_picoseconds(4e-6);  // from the host's launch to the device's, where the stream is idle
};

// What stood in a stream when it was recorded is done at this time.
struct PredictedEvent {
  StreamKind stream = StreamKind::kCompute;
  Picoseconds at = 0;
};

template <class Of>
using PerStream = std::array<Of, kStreamCount>;

// Where the time of a stream went.
struct StreamTime {
  Picoseconds busy = 0;
  Picoseconds unfed = 0;            // idle: the host had issued nothing that was not done
  PerStream<Picoseconds> waited{};  // idle: for events of each stream

  StreamTime& operator+=(const StreamTime& other);
};

struct PredictedTime {
  Picoseconds elapsed = 0;  // of the step, or of several
  PerStream<StreamTime> streams{};
  std::array<Picoseconds, kLaunchClassCount> classes{};  // busy time, all streams
  Picoseconds at_peak = 0;                               // what the flops would take at their peak rates
  int64_t launches = 0;                                  // on the device
  int64_t host_launches = 0;                             // a captured graph is one

  PredictedTime& operator+=(const PredictedTime& other);

  const StreamTime& of(StreamKind stream) const { return streams[static_cast<size_t>(stream)]; }
  Picoseconds of(LaunchClass cls) const { return classes[static_cast<size_t>(cls)]; }
  // Computing stood still for an all-reduce, or for a copy to the device.
  Picoseconds exposed_communication() const { return waited_by_compute(StreamKind::kCommunication); }
  Picoseconds exposed_copies() const { return waited_by_compute(StreamKind::kCopyIn); }
  // Of the elapsed time, from 0 to 1: computing stood still for want of launches; the flops at their peak rates.
  double host_bound_share() const { return share(of(StreamKind::kCompute).unfed); }
  double peak_share() const { return share(at_peak); }

 private:
  Picoseconds waited_by_compute(StreamKind stream) const {
    return of(StreamKind::kCompute).waited[static_cast<size_t>(stream)];
  }
  double share(Picoseconds part) const;
};

// One launch on the predicted clock, for traces.
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

  // Issues to a stream.
  void launch(StreamKind stream, const Launch& launch);
  PredictedEvent record(StreamKind stream) const { return {stream, clocks_[static_cast<size_t>(stream)]}; }
  void wait(StreamKind stream, const PredictedEvent& event);

  // What is issued in between is one captured graph, which the host launches once.  No host call may stand in it.
  void begin_replay();
  void end_replay();
  bool is_replaying() const { return replaying_; }

  // The host waits for an event; for all of a stream.
  void synchronize(const PredictedEvent& event);
  void synchronize(StreamKind stream) { synchronize(record(stream)); }

  Picoseconds host() const { return host_; }
  // When all is done that has been issued.
  Picoseconds done() const;

  // What came to pass since the last call; the clocks go on.
  PredictedTime take();

  // Writes each launch behind what is in there; null: no longer.  It must outlive the recording.
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
