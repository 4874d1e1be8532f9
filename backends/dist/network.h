// Messages between the processes of a run on one or several machines. A transport implements it.
//
// Messages with the same sender, receiver and channel arrive in the order in which they were sent. Thread-safe: calls
// of several threads alternate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace runner::backends {

class Network {
 public:
  // Keeps messages of different purposes apart.
  enum class Channel : uint8_t { kStart, kEnd, kCall, kValues, kTowardsLast, kTowardsFirst, kFailure };
  static constexpr int kAnyone = -1;
  static constexpr size_t kMaxMessage = size_t{1} << 20;  // bytes

  // A message in flight. Zero: none, or one that is done.
  struct Ticket {
    uint64_t value = 0;
  };

  virtual ~Network() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Start to send or receive at most kMaxMessage bytes. The memory must remain valid until is_done(). A received
  // message may be shorter than the memory. Throw Error(kRun) if the transport fails.
  virtual Ticket send(int to, Channel channel, std::span<const std::byte> data) = 0;
  virtual Ticket receive(int from, Channel channel, std::span<std::byte> data) = 0;  // from a rank, or kAnyone
  // Whether the message has left or arrived; the ticket is then none. Throws Error(kRun) if the transport fails.
  virtual bool is_done(Ticket& ticket) = 0;
  // Withdraws a receive.
  virtual void cancel(Ticket& ticket) noexcept = 0;
};

}  // namespace runner::backends
