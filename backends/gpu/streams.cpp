#include "backends/gpu/streams.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/dist/rank_error.h"
#include "backends/runtime/spans.h"
#include "backends/runtime/spin.h"
#include "schema/base/duration.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the gap between two small steps.
constexpr auto kLinger = std::chrono::microseconds(50);
// Time allowed for the launch of a lost device to end; afterwards nothing accesses host memory.
constexpr auto kLastLaunch = std::chrono::seconds(1);

}  // namespace

// Each stream has a track in traces, whichever thread executes it.
Streams::Streams(const Options& options) : options_(options), recorder_(RecordingThread::recorder()) {
  for (size_t i = 0; i < kStreamCount && recorder_ != nullptr; ++i)
    tracks_[i] = recorder_->add_thread(fmt::format("{} {}", name(), name_of(static_cast<StreamKind>(i))));
  if (options_.own_thread) thread_ = std::thread([this] { work(); });
}

Streams::~Streams() {
  while (!stop()) {
  }
}

bool Streams::stop() noexcept {
  stops_.store(true);
  changed_->notify_all();
  if (!options_.own_thread) return true;
  const auto limit = is_lost_.load() ? std::chrono::milliseconds(kLastLaunch) : options_.patience;
  const bool has_ended = has_ended_.wait_for(limit) == std::future_status::ready;
  if (!thread_.joinable()) return has_ended;
  has_ended ? thread_.join() : thread_.detach();
  return has_ended;
}

std::string Streams::running() const {
  const Launchable* const at = at_.load(std::memory_order_acquire);
  return at != nullptr ? fmt::format("{} is at {}", name(), at->describe(at_index_.load())) : std::string();
}

// ---- the host's side ----

void Streams::launch_all(StreamKind stream, Launchable& what, int32_t first, int32_t end) {
  push(stream, {.kind = StreamCommand::Kind::kLaunch, .index = first, .end = end, .launched = &what});
}

uint64_t Streams::record(StreamKind stream, StreamEvent& event) {
  RUN_CHECK(event.device() == name(), ErrorKind::kRun, "an event of {} cannot be recorded in a stream of {}",
            event.device(), name());
  const uint64_t count = event.count_recording();
  push(stream, {.kind = StreamCommand::Kind::kRecord, .event = event.shared_from_this(), .count = count});
  changed_->notify_all();
  return count;
}

void Streams::wait(StreamKind stream, StreamEvent& event, uint64_t count) {
  if (event.has_reached(count)) return;
  push(stream, {.kind = StreamCommand::Kind::kWait, .event = event.shared_from_this(), .count = count});
}

// Whether `changed_` is notified within kLinger.
bool Streams::changes_soon(uint32_t before) const {
  const auto has_changed = [&] { return changed_->has_changed_since(before); };
  return options_.spins ? spin_until(has_changed, kLinger) : has_changed();
}

void Streams::push(StreamKind stream, StreamCommand command) {
  CommandRing& ring = rings_[static_cast<size_t>(stream)];
  if (ring.is_full()) wait_until([&] { return !ring.is_full(); });
  ring.push(std::move(command));
}

void Streams::finish(StreamEvent& event, uint64_t count) {
  RUN_CHECK(event.device() == name(), ErrorKind::kRun, "the host cannot wait for an event of {} at {}", event.device(),
            name());
  wait_until([&] { return event.has_reached(count); }, [&] { return event.has_reached_or_notifies(count, changed_); });
}

void Streams::finish() {
  wait_until([this] { return are_empty(); });
}

void Streams::synchronize(StreamEvent& event, uint64_t count) {
  finish(event, count);
  throw_error();
}

void Streams::synchronize() {
  finish();
  throw_error();
}

bool Streams::are_empty() const {
  return std::ranges::all_of(rings_, &CommandRing::is_empty);
}

// A waiting thread executes commands if no other thread does. `done_or_notifies`: like `done`, but if it returns false,
// `changed_` is notified as soon as the result may change.
template <class Done, class Rings>
void Streams::wait_until(const Done& done, const Rings& done_or_notifies) {
  uint64_t seen = progress_.load();
  auto since = Clock::now();
  while (!done()) {
    if (loss_) std::rethrow_exception(loss_);
    const uint32_t before = changed_->count();
    if (drive(done) && done()) return;
    if (done_or_notifies() || changes_soon(before)) continue;
    changed_->wait(before, options_.nap);
    if (done()) return;
    if (const uint64_t progress = progress_.load(); progress != seen) {
      seen = progress;
      since = Clock::now();
    }
    look_around(since);
  }
}

// `since`: time of the last progress.
void Streams::look_around(Clock::time_point since) {
  try {
    if (options_.check_others) options_.check_others();
    if (Clock::now() - since > options_.patience) give_up();
  } catch (...) {
    lose(std::current_exception());
    throw;
  }
}

void Streams::give_up() {
  fail(ErrorKind::kRun, "{} has not responded for {}; {}", name(), limit_text(options_.patience), execution_text());
}

// Takes the right to execute, since only the executing thread may look at queued commands.
std::string Streams::execution_text() {
  while (is_driven_.exchange(true, std::memory_order_acquire)) {
    Launchable* const at = at_.load(std::memory_order_acquire);
    if (at != nullptr) return fmt::format("it executes {}", at->describe(at_index_.load()));
    std::this_thread::yield();
  }
  std::string wait = wait_text();
  is_driven_.store(false, std::memory_order_release);
  return wait;
}

// A wait for another device takes precedence: it is the reason why this device's streams wait for each other.
std::string Streams::wait_text() {
  std::string own;
  for (size_t stream = 0; stream < kStreamCount; ++stream) {
    const StreamCommand* const next = rings_[stream].front();
    if (next == nullptr || next->kind != StreamCommand::Kind::kWait) continue;
    const std::string& awaited = next->event->device();
    std::string wait = fmt::format("its {} stream waits for {}", name_of(static_cast<StreamKind>(stream)), awaited);
    if (awaited != name()) return wait;
    if (own.empty()) own = std::move(wait);
  }
  return own.empty() ? "its streams are empty" : own;
}

// Keeps the right to execute forever, so that nothing is launched any more.
void Streams::lose(std::exception_ptr error) {
  loss_ = std::move(error);
  is_lost_.store(true);
  const auto end = Clock::now() + kLastLaunch;
  while (is_driven_.exchange(true, std::memory_order_acquire) && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Skips the commands after the failed launch before the device is usable again.
void Streams::throw_error() {
  if (!is_poisoned_.load(std::memory_order_acquire)) return;
  finish();
  const std::exception_ptr error = std::exchange(error_, nullptr);
  is_poisoned_.store(false, std::memory_order_release);
  ++failures_;
  try {
    std::rethrow_exception(error);
  } catch (const RankError&) {
    throw;
  } catch (Error& of_launch) {
    of_launch.note(fmt::format("on {}", name()));
    throw;
  } catch (const std::exception& other) {  // not an Error of this project
    fail(ErrorKind::kRun, "{} has failed: {}", name(), other.what());
  } catch (...) {
    fail(ErrorKind::kRun, "{} has failed", name());
  }
}

// ---- the device's side ----

// A thread that finds nothing to do, or another thread executing, looks again after a notification. So a thread that
// stops for any other reason notifies: work announced by an earlier notification may still be pending.
template <class Done>
bool Streams::drive(const Done& done) {
  if (is_driven_.exchange(true, std::memory_order_acquire)) return false;
  const uint64_t before = progress_.load(std::memory_order_relaxed);
  bool found_nothing = false;
  while (!found_nothing && !done() && !stops_.load(std::memory_order_relaxed) &&
         !is_lost_.load(std::memory_order_relaxed))
    found_nothing = !do_next();
  const bool has_done_some = progress_.load(std::memory_order_relaxed) != before;
  is_driven_.store(false, std::memory_order_release);
  if (has_done_some || !found_nothing) changed_->notify_all();
  return true;
}

// Returns false if no stream can continue. An exception poisons the device.
bool Streams::do_next() {
  try {
    for (size_t stream = 0; stream < kStreamCount; ++stream)
      if (do_next(static_cast<StreamKind>(stream))) return true;
    return false;
  } catch (...) {
    poison();
    return true;
  }
}

bool Streams::do_next(StreamKind stream) {
  CommandRing& ring = rings_[static_cast<size_t>(stream)];
  StreamCommand* const next = ring.front();
  if (next == nullptr) return false;
  const bool poisoned = is_poisoned_.load(std::memory_order_relaxed);
  if (next->kind == StreamCommand::Kind::kWait && !poisoned && !is_over(*next)) return false;
  perform(stream, *next);
  if (next->kind != StreamCommand::Kind::kLaunch || ++next->index == next->end)
    if (ring.pop()) changed_->notify_all();
  progress_.store(progress_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

// If the event belongs to another device, that device notifies `changed_` when it advances.
bool Streams::is_over(const StreamCommand& wait) const {
  if (wait.event->has_reached(wait.count)) return true;
  return wait.event->device() != name() && wait.event->has_reached_or_notifies(wait.count, changed_);
}

void Streams::perform(StreamKind stream, const StreamCommand& command) {
  switch (command.kind) {
    case StreamCommand::Kind::kWait: return;
    case StreamCommand::Kind::kRecord: return command.event->reach(command.count);
    case StreamCommand::Kind::kLaunch:
      if (is_poisoned_.load(std::memory_order_relaxed)) return;
      if (recorder_ == nullptr || !recorder_->is_recording()) return launch_now(command);
      const RecordingThread track(*recorder_, tracks_[static_cast<size_t>(stream)]);
      launch_now(command);
  }
}

void Streams::launch_now(const StreamCommand& command) {
  at_index_.store(command.index, std::memory_order_relaxed);
  at_.store(command.launched, std::memory_order_release);
  try {
    command.launched->launch(command.index);
  } catch (...) {
    poison();
  }
  at_.store(nullptr, std::memory_order_release);
}

void Streams::poison() {
  error_ = std::current_exception();
  is_poisoned_.store(true, std::memory_order_release);
}

void Streams::work() {
  while (!stops_.load() && !is_lost_.load()) {
    const uint32_t before = changed_->count();
    drive([] { return false; });
    if (!changes_soon(before)) changed_->wait(before);
  }
  end_.set_value();
}

}  // namespace runner::backends::gpu
