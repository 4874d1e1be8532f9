// The backend contract: what a device must do to run Programs.  Everything above it knows only this page.
//
// Order: what is submitted to a device takes effect in the order of the calls.  submit() may return before the work is
// done; read(), read_output(), wait() and synchronize() return when it is.
// Errors: an op that fails in a submission (an Error with the source line of the op) voids what was submitted behind
// it. The error is thrown once, by the first call that waits, or by submit() itself on a device that works inside it,
// as the cpu device does; then the device is ready again, with undefined contents in the states of those submissions,
// unless has_written_states() says otherwise, and in what has been written behind them.
// Thread safety: one thread at a time calls a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/collectives/exchange.h"
#include "backends/ir/traced_scalar.h"

namespace runner::backends {

enum class SpanKind : uint8_t;  // runtime/spans.h

// Memory of a device.  Freed when the last owner lets go and the device no longer needs it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual size_t bytes() const = 0;
};

// A Program made ready to run on one device.  May be run any number of times; freed as a Buffer is.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual size_t arena_bytes() const = 0;  // temporary memory of one execution
  virtual int64_t flops() const = 0;
  virtual int64_t bytes() const = 0;  // that the kernels read and write
};

// Names a submission to the compute stream.  They grow by one; 0: of another stream, whose work is done when an event
// behind it has been reached.
using Ticket = uint64_t;

// A mark in the work of a device with streams, counted each time that it is recorded.  Submissions to any device of the
// process may wait for it, and keep it.
class Event {
 public:
  virtual ~Event() = default;
};

struct StateBytes {
  int32_t state = -1;
  size_t begin = 0, end = 0;
  bool operator==(const StateBytes&) const = default;
};
// When an event is recorded: when these bytes of a state have their new contents; no state: when all is done.  Signals
// of one event stand next to each other.
struct Signal {
  Event* event;
  StateBytes bytes = {};
};
// What a replica that shares nothing would hand to the others as soon as it has it, to be added up: of the graph that
// Account::compile_graph() was told of.  What is of one bucket stands next to each other, and goes together.
struct ReducedBytes {
  int32_t bucket;
  StateBytes bytes;
  bool operator==(const ReducedBytes&) const = default;
};
struct EventCount {
  Event* event;
  uint64_t count;
};

// Of a device with streams: submissions to one take effect in order, beside those to the other.
enum class StreamRole : uint8_t { kCompute, kCommunication };

// One argument for each input of the Program, by kind, each list in the order of the inputs.
struct Arguments {
  std::span<Buffer* const> states;          // apart from each other; updated where the Program has an output for them
  std::span<const std::byte* const> batch;  // host memory; must stay as it is until wait(ticket) returns
  std::span<const double> scalars;          // copied
  // The source lines that errors name: of the recording at hand, which may be another than the one that was compiled.
  // Null: of that one.  Must stay as they are until wait(ticket) returns.
  const SourceLines* lines = nullptr;
  // What DeviceStreams::stage() returned for the first of the batch; 0: nothing.
  uint64_t staged = 0;
  // What a device that keeps account of graphs looks at: the numbers that traced code handed over, the states that no
  // step has made yet (by index, ascending; their contents are zeros), and the training batch, from 1.
  std::span<const TracedScalar> traced = {};
  std::span<const int32_t> absent = {};
  int64_t step = 0;
  bool reads = false;  // the host waits for a value out of what is under way
  bool waits = false;  // the host waits for this at once: a device need not hand it to a thread of its own
  // In traces, where it has a name, which must outlive the device.
  std::string_view name = {};
  SpanKind span = {};
  // With the other replicas, for Programs with collectives; null: there are none.  Must live until wait(ticket)
  // returns.
  Exchange* exchange = nullptr;
  // For a device with streams; elsewhere there must be none of these.
  StreamRole stream = StreamRole::kCompute;
  std::span<const EventCount> after = {};  // it begins
  std::span<const Signal> signals = {};
  std::span<const ReducedBytes> reduced = {};
};

// The name of the one output of a Program that computes what the user's code reads.
inline constexpr std::string_view kReadOutput = "item";

// What a device with streams does beside what is under way.
class DeviceStreams {
 public:
  virtual ~DeviceStreams() = default;

  // Begins to copy the first inputs of a batch that is to come, as far as `like`, a step of its kind, reads them.
  // Submissions may name the copy until the call behind the next one; those whose inputs are of other sizes copy for
  // themselves.  The memory must stay as it is until a submission that names it has been waited for, or all is dropped.
  // Never 0.  Throws OutOfMemory where the device accounts for its memory and has not enough beside what is there.
  virtual uint64_t stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) = 0;
  // Waits until nothing is copied so any more, and forgets it all.
  virtual void drop_staged() noexcept = 0;

  virtual std::shared_ptr<Event> make_event() = 0;
  // Records an event of the device behind all that has been submitted to its compute stream.
  virtual void record(Event& event) = 0;
};

class Account;  // account.h

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;

  // Zeroed memory.  Throws Error(kRun) when the device has not so much.
  virtual std::shared_ptr<Buffer> allocate(size_t bytes) = 0;
  // A buffer over memory of the host that others may use, too: who writes when is the caller's affair.
  virtual std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) = 0;
  // The same two for an array that a replica would have of its own if it shared nothing with others: what a device that
  // accounts for its memory counts, by this name.  Throw OutOfMemory where it has not so much.
  virtual std::shared_ptr<Buffer> allocate_array(size_t bytes, std::string_view name) {
    static_cast<void>(name);
    return allocate(bytes);
  }
  virtual std::shared_ptr<Buffer> wrap_array(std::shared_ptr<std::byte> memory, size_t bytes, std::string_view name) {
    static_cast<void>(name);
    return wrap(std::move(memory), bytes);
  }
  // Copies from the host; `source` may be reused on return.  May leave the error of a submission to the next call that
  // waits.
  virtual void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) = 0;
  // Copies to the host.
  virtual void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) = 0;

  // Throws Error(kRun) where the device lacks an op for some types, and OutOfMemory where it accounts for its memory
  // and has not enough for the Program alone.
  virtual std::shared_ptr<Executable> compile(const Program& program) = 0;
  // Whether products read their operands of f32 rounded to bf16; steps may bring states that are rounded already
  // (Input::rounded_of).
  virtual bool rounds_operands() const { return false; }
  // Whether the host may gain by going on while what it has submitted is under way.
  virtual bool runs_beside_host() const { return false; }
  virtual Ticket submit(Executable& executable, const Arguments& arguments) = 0;
  // Whether the newest submission, which has ended or failed, may have written to a state of its own.  A device that
  // does not know says so of each.
  virtual bool has_written_states() const { return true; }
  // Null: it has none, and does one thing after the other.
  virtual DeviceStreams* streams() { return nullptr; }
  // Null: it keeps none.
  virtual Account* account() { return nullptr; }
  // Copies output `index` of the Program, which must not target a state, of the newest submission of `executable`;
  // valid until the next submission to its compute stream.
  virtual void read_output(Executable& executable, int index, std::span<std::byte> target) = 0;

  // What the user should be told of what has been submitted, and has not been told.
  virtual std::vector<std::string> take_warnings() { return {}; }

  virtual void wait(Ticket ticket) = 0;
  virtual void synchronize() = 0;

  // What the tensors of one process may take; none: as much as the system gives.  Who runs Programs keeps to it.
  virtual std::optional<int64_t> memory_limit() const { return std::nullopt; }
  // Temporary memory that submissions have made the device take, and still has.
  virtual size_t temporary_bytes() const = 0;
  // Gives it back; the next submission takes what it needs.  Outputs that have not been read are lost.
  virtual void release_temporary() = 0;
};

}  // namespace runner::backends
