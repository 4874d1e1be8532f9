// The streams of one emulated GPU, and who does what is in them.
//
// A stream is a queue of commands: launches, events to record, events to wait for.  Each begins when the one before it
// has ended; between two launches the device looks at its other streams, so that copies and reductions go on beside
// kernels.  A thread of the device's own does all that; a host that waits, and finds nobody at work, does it itself,
// since handing over costs more than most kernels.
//
// Errors: a launch that throws poisons the device.  What stands behind it, in every stream, is left out, while events
// fire, so that nobody hangs; the next call that waits throws the error, once, and the device is ready again.  A device
// that the host has given up waiting for is lost: it does nothing more, and every later call that would wait throws.
// Thread safety: one thread at a time, the host, calls it.  Streams of other devices may wait for its events.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "backends/gpu/command_ring.h"
#include "backends/gpu/stream_kind.h"
#include "backends/runtime/bell.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

// What can be launched, by the number of a part of it.
class Launchable {
 public:
  virtual ~Launchable() = default;
  virtual void launch(int32_t index) = 0;
  // For who asks what a device is at: "matmul at hook.lua:12".
  virtual std::string describe(int32_t index) const = 0;
};

class Streams {
 public:
  struct Options {
    std::string name = "gpu 0";  // of the device, for messages and traces
    // Its thread works while the host goes on; else who waits does all.
    bool own_thread = true;
    bool spins = true;  // before it sleeps; false where devices are more than cores
    // The host gives up where the device has done nothing for so long.
    std::chrono::milliseconds patience = std::chrono::minutes(10);
    // A host that waits looks this often whether the device does anything at all.
    std::chrono::milliseconds nap = std::chrono::milliseconds(50);
    // Throws where devices that this one may wait for will not go on; asked from time to time.  Empty: there are none.
    std::function<void()> check_others = {};
  };
  explicit Streams(const Options& options);
  // What has not begun is dropped; a launch under way is waited for, whose operands others are about to free.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  const std::string& name() const { return options_.name; }

  // Each returns at once, but where the stream is full.  What they name must live until the command is done.  The
  // device begins with them when an event is recorded behind them, or the host waits.
  void launch(StreamKind stream, Launchable& what, int32_t index) { launch_all(stream, what, index, index + 1); }
  // Several in a row, from `first` up to `end`, as one.
  void launch_all(StreamKind stream, Launchable& what, int32_t first, int32_t end);
  // Returns the count that the event has then.  Throws Error(kRun) for an event of another device.
  uint64_t record(StreamKind stream, Event& event);
  // The stream goes on when the event, of any device, has reached `count`.
  void wait(StreamKind stream, Event& event, uint64_t count);

  // Returns when the event, of this device, has reached `count`, or all streams are empty.  Throws Error(kRun) where
  // the device does not answer.
  void finish(Event& event, uint64_t count);
  void finish();
  // The same, and throws the error of a launch.
  void synchronize(Event& event, uint64_t count);
  void synchronize();

  uint64_t failures() const { return failures_; }  // that have been thrown so far
  // Whether nobody is at a launch.
  bool is_idle() const { return at_.load() == nullptr; }

 private:
  void push(StreamKind stream, Command command);
  bool are_empty() const;

  // Does commands until `done`, or none can begin.  False: somebody else is at it.
  template <class Done>
  bool drive(const Done& done);
  bool do_next();
  bool do_next(StreamKind stream);
  bool is_over(const Command& wait) const;
  void perform(StreamKind stream, const Command& command);
  void launch_now(const Command& command);
  void poison();
  template <class Done, class Rings>
  void wait_until(const Done& done, const Rings& done_or_rings);
  template <class Done>
  void wait_until(const Done& done) {
    wait_until(done, done);
  }
  bool rings_soon(uint32_t heard) const;
  void work();
  void throw_error();
  void look_around(std::chrono::steady_clock::time_point since);
  [[noreturn]] void give_up();
  std::string what_it_is_at();
  std::string what_it_waits_for();
  void lose(std::exception_ptr error);

  const Options options_;
  std::array<CommandRing, kStreamCount> rings_;
  uint64_t failures_ = 0;
  std::exception_ptr loss_;       // why the device is lost
  SpanRecorder* const recorder_;  // null: nobody traces
  std::array<int, kStreamCount> tracks_{};

  std::atomic<bool> is_driven_{false};
  std::atomic<bool> is_poisoned_{false};
  std::atomic<bool> is_lost_{false};
  std::exception_ptr error_;              // written by who drives, before is_poisoned_
  std::atomic<uint64_t> progress_{0};     // commands done
  std::atomic<Launchable*> at_{nullptr};  // what is under way
  std::atomic<int32_t> at_index_{0};

  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();  // events of others keep it
  std::atomic<bool> stops_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace runner::backends::gpu
