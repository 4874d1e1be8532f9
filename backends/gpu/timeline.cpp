#include "backends/gpu/timeline.h"

#include <algorithm>

#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

template <class Times>
void add(Times& to, const Times& more) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

StreamTime& StreamTime::operator+=(const StreamTime& other) {
  busy += other.busy;
  unfed += other.unfed;
  add(waited, other.waited);
  return *this;
}

PredictedTime& PredictedTime::operator+=(const PredictedTime& other) {
  elapsed += other.elapsed;
  add(streams, other.streams);
  add(classes, other.classes);
  at_peak += other.at_peak;
  launches += other.launches;
  host_launches += other.host_launches;
  return *this;
}

double PredictedTime::share(Picoseconds part) const {
  return elapsed == 0 ? 0 : static_cast<double>(part) / static_cast<double>(elapsed);
}

// The stream is idle until the host's command arrives.
void Timeline::feed(StreamKind stream) {
  Picoseconds& clock = clocks_[static_cast<size_t>(stream)];
  if (arrival() <= clock) return;
  time_.streams[static_cast<size_t>(stream)].unfed += arrival() - clock;
  clock = arrival();
}

void Timeline::launch(StreamKind stream, const Launch& launch) {
  if (!replaying_) {
    host_ += times_.eager;
    ++time_.host_launches;
  }
  feed(stream);
  Picoseconds& clock = clocks_[static_cast<size_t>(stream)];
  const Picoseconds begin = clock;
  clock += launch.duration;
  time_.streams[static_cast<size_t>(stream)].busy += launch.duration;
  time_.classes[static_cast<size_t>(launch.cls)] += launch.duration;
  time_.at_peak += launch.at_peak;
  ++time_.launches;
  if (spans_ != nullptr) spans_->push_back({stream, launch.cls, launch.name, launch.flops, launch.bytes, begin, clock});
}

void Timeline::wait(StreamKind stream, const PredictedEvent& event) {
  feed(stream);
  Picoseconds& clock = clocks_[static_cast<size_t>(stream)];
  if (event.at <= clock) return;
  time_.streams[static_cast<size_t>(stream)].waited[static_cast<size_t>(event.stream)] += event.at - clock;
  clock = event.at;
}

void Timeline::begin_replay() {
  RUN_ASSERT(!replaying_);
  replaying_ = true;
  host_ += times_.replay;
  ++time_.host_launches;
}

void Timeline::end_replay() {
  RUN_ASSERT(replaying_);
  replaying_ = false;
}

void Timeline::synchronize(const PredictedEvent& event) {
  RUN_ASSERT(!replaying_);
  host_ = std::max(host_, event.at);
}

Picoseconds Timeline::done() const {
  return std::max(host_, *std::max_element(clocks_.begin(), clocks_.end()));
}

// Idle time up to now belongs to the period that ends here.
PredictedTime Timeline::take() {
  for (size_t stream = 0; stream < kStreamCount; ++stream) {
    const Picoseconds idle = std::max<Picoseconds>(host_ - clocks_[stream], 0);
    time_.streams[stream].unfed += idle;
    clocks_[stream] += idle;
  }
  const Picoseconds now = done();
  PredictedTime time = time_;
  time.elapsed = now - taken_;
  time_ = {};
  taken_ = now;
  return time;
}

}  // namespace runner::backends::gpu
