// The backend contract: what a device must implement to run Programs. Code above the backends knows only this header.
//
// Order: submissions to a device take effect in the order of the calls. submit() may return before the work is done;
// read(), read_output(), wait() and synchronize() return when it is.
//
// Errors: if an op of a submission fails (with an Error that has the source line of the op), the submissions after it
// are void. The error is thrown once, by the first call that waits, or by submit() itself on a synchronous device such
// as the CPU. Then the device is usable again. Undefined are the contents of the states of those submissions, unless
// has_written_states() says otherwise, and of buffers written after them.
//
// Thread safety: one thread at a time calls a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backends/dist/exchange.h"
#include "backends/ir/program.h"
#include "schema/base/error.h"

namespace runner::backends {

enum class SpanKind : uint8_t;  // runtime/spans.h

// Memory of a device. Freed when the last owner releases it and the device no longer needs it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual size_t bytes() const = 0;
};

// A Program compiled for one device. It may run any number of times. Freed like a Buffer.
class Executable : public std::enable_shared_from_this<Executable> {
 public:
  virtual ~Executable() = default;
  virtual size_t arena_bytes() const = 0;  // temporary memory of one execution
  virtual int64_t flops() const = 0;
  virtual int64_t bytes() const = 0;  // read and written by the kernels
};

// Sequence number on the compute stream, increasing by one; 0 for other streams (use an Event).
using Ticket = uint64_t;

// An event in the streams of a device, counted each time it is recorded. Submissions to any device of the process may
// wait for it; they share ownership.
class Event {
 public:
  virtual ~Event() = default;
};

// An event of a device without streams, which calls it on the thread that executes.
class CalledEvent : public Event {
 public:
  virtual void record() noexcept = 0;
};

struct StateBytes {
  int32_t state = -1;
  size_t begin = 0, end = 0;
  bool operator==(const StateBytes&) const = default;
};
// A byte range of a bucket. Ranges of one bucket must be adjacent and are reduced together.
struct ReducedBytes {
  int32_t bucket;
  StateBytes bytes;
  bool operator==(const ReducedBytes&) const = default;
};
// Records an event when these bytes of a state have their new contents, or when the submission is complete if no state
// is given. An event is recorded once for each of its signals, which must be adjacent. The submission does not use the
// bytes after a CalledEvent.
struct Signal {
  Event* event;
  StateBytes bytes = {};
};
struct AwaitedEvent {
  Event* event;
  uint64_t count;
};

// Streams of a device that has them. Submissions to one stream run in order, and concurrently with the other stream.
enum class StreamRole : uint8_t { kCompute, kCommunication };

// One execution of an Executable: one argument per input of the Program, by kind, each list in input order.
struct Submission {
  std::span<Buffer* const> states;          // must not overlap; updated if the Program has an output for them
  std::span<const std::byte* const> batch;  // host memory; must not change until wait(ticket) returns
  std::span<const double> scalars;          // copied
  // Source lines that errors refer to: of the current recording, which may differ from the compiled one. Null: those of
  // the compiled one. Must not change until wait(ticket) returns.
  const SourceLines* lines = nullptr;
  // Ticket of DeviceStreams::stage() for the first inputs of the batch; 0: not staged.
  uint64_t staged = 0;
  bool waits = false;  // the host waits for this at once, so that a thread of its own gains nothing
  // For traces; empty: not traced. Must outlive the device.
  std::string_view name = {};
  SpanKind span = {};
  // Performs the collectives of the Program; null if there are none. Must live until wait(ticket) returns.
  Exchange* exchange = nullptr;
  // For devices with streams; must have default values on others, except for `signals` if the device calls_events().
  StreamRole stream = StreamRole::kCompute;
  std::span<const AwaitedEvent> after = {};  // events to wait for before it begins
  std::span<const Signal> signals = {};
  bool replays = false;  // launched at once, as a captured graph
};

// Functions of a device with streams that run concurrently with submissions.
class DeviceStreams {
 public:
  virtual ~DeviceStreams() = default;

  // Starts copying the first inputs of a later batch to the device. `like`: a step of the same kind; inputs that it
  // does not read are skipped. Returns a ticket, never 0, that submissions may refer to until the call after the next.
  // A submission whose inputs have other sizes copies them itself. The memory must not change until a submission that
  // refers to the ticket has been waited for, or until drop_staged(). Throws OutOfMemory if the modelled memory has too
  // little left.
  virtual uint64_t stage(const Executable& like, std::span<const std::span<const std::byte>> inputs) = 0;
  // Whether submissions may still refer to the ticket.
  virtual bool has_staged(uint64_t ticket) const = 0;
  // Waits for all staged copies and discards them.
  virtual void drop_staged() noexcept = 0;

  virtual std::shared_ptr<Event> make_event() = 0;
  // Records an event of this device after everything submitted to its compute stream.
  virtual void record(Event& event) = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;

  // Returns zeroed memory. Throws Error(kRun) if memory is exhausted.
  virtual std::shared_ptr<Buffer> allocate(size_t bytes) = 0;
  // Returns a buffer over host memory that others may use too; the caller synchronises access.
  virtual std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte> memory, size_t bytes) = 0;
  // Copies from the host; `source` may be reused on return. May leave the error of a submission to the next call that
  // waits.
  virtual void write(Buffer& buffer, size_t offset, std::span<const std::byte> source) = 0;
  // Copies to the host.
  virtual void read(const Buffer& buffer, size_t offset, std::span<std::byte> target) = 0;
  // Whether the host may read buffers where they are.
  virtual bool has_views() const { return false; }
  // Returns the contents of a buffer if has_views(). Valid until the next submission or write.
  virtual std::span<const std::byte> view(const Buffer& /*buffer*/) const { return {}; }

  // Throws Error(kRun) if the device does not support an op for some types.
  virtual std::shared_ptr<Executable> compile(const Program& program) = 0;
  // Whether f32 products read their operands rounded to bf16. Steps may then pass states that are already rounded
  // (Input::rounded_of).
  virtual bool rounds_operands() const { return false; }
  // Whether the host may gain by continuing while its submissions are in flight.
  virtual bool runs_asynchronously() const { return false; }
  // Whether Submission::signals may have CalledEvents.
  virtual bool calls_events() const { return false; }
  virtual Ticket submit(Executable& executable, const Submission& submission) = 0;
  // Whether the newest submission, which has ended or failed, may have written to its states. A device that does not
  // know returns true.
  virtual bool has_written_states() const { return true; }
  // Returns null if the device is synchronous and has no streams.
  virtual DeviceStreams* streams() { return nullptr; }
  // Copies output `index`, which must not target a state, of the newest submission of `executable`. Valid until the
  // next submission to its compute stream.
  virtual void read_output(Executable& executable, int index, std::span<std::byte> target) = 0;

  virtual void wait(Ticket ticket) = 0;
  virtual void synchronize() = 0;

  // Limit for the tensors of one process in bytes; none: no limit but the system's. Enforced by the code that runs
  // Programs.
  virtual std::optional<int64_t> memory_limit() const { return std::nullopt; }
  // Temporary memory that submissions have allocated and the device still holds.
  virtual size_t temporary_bytes() const = 0;
  // Frees temporary memory; the next submission allocates what it needs. Outputs that have not been read are lost.
  virtual void release_temporary() = 0;
};

// Error of a device that runs out of memory. The caller may retry with less (train.auto_batch_size).
class OutOfMemory : public Error {
 public:
  // `bytes`: needed; `limit`: available.
  OutOfMemory(std::string message, int64_t bytes, int64_t limit)
      : Error(ErrorKind::kRun, std::move(message)), bytes_(bytes), limit_(limit) {}

  int64_t bytes() const { return bytes_; }
  int64_t limit() const { return limit_; }

 private:
  int64_t bytes_, limit_;
};

}  // namespace runner::backends
