// Streams of one emulated GPU and the threads that execute them.
//
// A stream is a queue of commands: launches, events to record, events to wait for. A command begins when the previous
// one of its stream has ended. Between two launches the device serves its other streams, so copies and reductions run
// concurrently with kernels. The device's own thread executes the streams. A waiting host that finds the streams idle
// executes them itself, since a thread switch costs more than most kernels.
//
// Errors: a launch that throws poisons the device. Commands after it, in all streams, are skipped, but events are still
// recorded so that no thread hangs. The next call that waits throws the error once, and the device is usable again. A
// device that the host has stopped waiting for is lost: it does nothing more, and every later call that would wait
// throws. Thread safety: one thread at a time, the host, calls it. Streams of other devices may wait for its events.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "backends/gpu/command_ring.h"
#include "backends/gpu/stream_kind.h"
#include "backends/runtime/event_count.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

// Work that can be launched in parts, by index.
class Launchable {
 public:
  virtual ~Launchable() = default;
  virtual void launch(int32_t index) = 0;
  // Describes the launch in messages: "matmul at hook.lua:12".
  virtual std::string describe(int32_t index) const = 0;
};

class Streams {
 public:
  struct Options {
    std::string name = "gpu 0";  // of the device, for messages and traces
    // Whether a thread of its own executes the streams; else the waiting host does.
    bool own_thread = true;
    bool spins = true;  // spin before sleeping; false if there are more devices than cores
    // The host gives up if the device makes no progress for this long.
    std::chrono::milliseconds patience = std::chrono::minutes(10);
    // Interval at which a waiting host checks for progress.
    std::chrono::milliseconds nap = std::chrono::milliseconds(50);
    // Called regularly while waiting. Throws if devices that this one may wait for have failed. Empty: there are none.
    std::function<void()> check_others = {};
  };
  explicit Streams(const Options& options);
  // Stops, and waits for a running launch however long it takes: its operands may be freed afterwards.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const std::string& name() const { return options_.name; }
  // Drops commands that have not begun, and waits for a running launch: as long as Options::patience, or for a moment
  // if the device is lost. Returns whether it has ended. If not, the object and what the launch uses must be kept.
  bool stop() noexcept;
  // Describes the running launch, "gpu 0 is at matmul of h.lua:3", or returns nothing if there is none.
  std::string running() const;

  // Enqueue a command; they block only if the stream is full. Referenced objects must live until the command is
  // complete. The device starts when an event is recorded after the command, or when the host waits.
  void launch(StreamKind stream, Launchable& what, int32_t index) { launch_all(stream, what, index, index + 1); }
  // Launches parts `first` to `end` - 1 as one command.
  void launch_all(StreamKind stream, Launchable& what, int32_t first, int32_t end);
  // Returns the event's count after this recording. Throws Error(kRun) if the event belongs to another device.
  uint64_t record(StreamKind stream, StreamEvent& event);
  // Makes the stream wait until the event, of any device, has reached `count`.
  void wait(StreamKind stream, StreamEvent& event, uint64_t count);

  // Wait until the event, of this device, has reached `count`, or until all streams are empty. Throw Error(kRun) if the
  // device makes no progress.
  void finish(StreamEvent& event, uint64_t count);
  void finish();
  // Like finish(), but throw the error of a failed launch.
  void synchronize(StreamEvent& event, uint64_t count);
  void synchronize();

  uint64_t failures() const { return failures_; }  // number of errors thrown

 private:
  void push(StreamKind stream, StreamCommand command);
  bool are_empty() const;

  // Executes commands until `done` or until none can begin. Returns false if another thread is executing.
  template <class Done>
  bool drive(const Done& done);
  bool do_next();
  bool do_next(StreamKind stream);
  bool is_over(const StreamCommand& wait) const;
  void perform(StreamKind stream, const StreamCommand& command);
  void launch_now(const StreamCommand& command);
  void poison();
  template <class Done, class Rings>
  void wait_until(const Done& done, const Rings& done_or_notifies);
  template <class Done>
  void wait_until(const Done& done) {
    wait_until(done, done);
  }
  bool changes_soon(uint32_t before) const;
  void work();
  void throw_error();
  void look_around(std::chrono::steady_clock::time_point since);
  [[noreturn]] void give_up();
  std::string execution_text();
  std::string wait_text();
  void lose(std::exception_ptr error);

  const Options options_;
  std::array<CommandRing, kStreamCount> rings_;
  uint64_t failures_ = 0;
  std::exception_ptr loss_;       // why the device is lost
  SpanRecorder* const recorder_;  // null: no trace is recorded
  std::array<int, kStreamCount> tracks_{};

  std::atomic<bool> is_driven_{false};
  std::atomic<bool> is_poisoned_{false};
  std::atomic<bool> is_lost_{false};
  std::exception_ptr error_;              // written by the executing thread before is_poisoned_
  std::atomic<uint64_t> progress_{0};     // commands executed
  std::atomic<Launchable*> at_{nullptr};  // the running launch
  std::atomic<int32_t> at_index_{0};

  const std::shared_ptr<EventCount> changed_ =
      std::make_shared<EventCount>();  // shared, since events of other devices keep it
  std::atomic<bool> stops_{false};
  std::promise<void> end_;  // of the thread
  const std::future<void> has_ended_ = end_.get_future();
  std::thread thread_;  // last, since it uses all of the above
};

}  // namespace runner::backends::gpu
