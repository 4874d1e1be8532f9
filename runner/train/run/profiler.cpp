#include "runner/train/run/profiler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/formats/chrome_trace.h"

namespace runner::train {
namespace {

bool records(ProfileAction action) {
  return action == ProfileAction::kRecord || action == ProfileAction::kRecordAndSave;
}

}  // namespace

ProfileAction profile_action(const schema::ProfileSpec& spec, int64_t step) {
  step -= spec.skip_first;
  const int64_t cycle = spec.wait + spec.warmup + spec.active;
  if (step < 0 || (spec.repeat > 0 && step / cycle >= spec.repeat)) return ProfileAction::kNone;
  const int64_t at = step % cycle;
  if (at < spec.wait) return ProfileAction::kNone;
  if (at < spec.wait + spec.warmup) return ProfileAction::kWarmup;
  return at + 1 < cycle ? ProfileAction::kRecord : ProfileAction::kRecordAndSave;
}

Profiler::Profiler(const schema::ProfileSpec& spec) : spec_(spec), recording_(&recorder_, "training") {
  begin(ProfileAction::kNone, action(0));
}

void Profiler::begin(ProfileAction before, ProfileAction now) {
  const bool continues = before == ProfileAction::kRecord || (before == ProfileAction::kWarmup && now == before);
  if (now == ProfileAction::kNone) {
    recorder_.end();
  } else if (!continues) {
    recorder_.begin();
    has_steps_ = false;
  }
  began_ns_ = backends::monotonic_ns();
}

std::string Profiler::end_step(int64_t number, backends::ProcessGroup* ranks) {
  const ProfileAction before = action(step_), now = action(step_ + 1);
  ++step_;
  if (before == ProfileAction::kNone && now == before) return "";
  std::string events;
  if (records(before)) add_step(number);
  if (before == ProfileAction::kRecordAndSave) events = take(ranks);
  begin(before, now);
  return events;
}

void Profiler::add_step(int64_t number) {
  backends::Span span;
  span.name = fmt::format("step {}", number);
  span.begin_ns = began_ns_;
  span.end_ns = backends::monotonic_ns();
  recorder_.add(std::move(span), recorder_.round());
  has_steps_ = true;
}

std::string Profiler::end(backends::ProcessGroup* ranks) {
  const bool is_cycle = records(action(step_)) && std::exchange(has_steps_, false);
  return is_cycle ? take(ranks) : "";
}

std::string Profiler::take(backends::ProcessGroup* ranks) {
  const std::vector<backends::Span> spans = recorder_.end();
  left_out_ = recorder_.left_out();
  std::string mine = formats::trace_events({.process = ranks != nullptr ? ranks->rank() : 0,
                                            .threads = recorder_.threads(),
                                            .spans = spans,
                                            .left_out = left_out_,
                                            .predicted = recorder_.predicted()});
  if (ranks == nullptr) return mine;
  const std::vector<std::string> all = ranks->gather_objects(mine, {"the trace", step_});
  return ranks->rank() == 0 ? fmt::format("{}", fmt::join(all, formats::kTraceBetween)) : "";
}

}  // namespace runner::train
