// Messages between the processes of a run on one or several machines. A transport implements it.
//
// Messages with the same sender, receiver and channel arrive in the order in which they were sent. Thread-safe: calls
// are serialised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace runner::backends {

class Network {
 public:
  // Keeps messages of different purposes apart.
  enum class Channel : uint8_t { kStart, kEnd, kCall, kValues, kTowardsLast, kTowardsFirst, kFailure, kFailureAtStart };
  static constexpr int kAnyone = -1;
  static constexpr size_t kMaxMessage = size_t{1} << 20;  // bytes

  // A message in flight. Zero: none, or one that is done.
  struct Request {
    uint64_t value = 0;
  };

  virtual ~Network() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Start to send or receive at most kMaxMessage bytes. The memory must remain valid until is_done(). A received
  // message may be shorter than the memory. Throw Error(kRun) if the transport fails.
  virtual Request send(int to, Channel channel, std::span<const std::byte> data) = 0;
  virtual Request receive(int from, Channel channel, std::span<std::byte> data) = 0;  // from a rank, or kAnyone
  // Whether the message has left or arrived; the request is then none. Each call lets all messages of this process make
  // progress. Throws Error(kRun) if the transport fails.
  virtual bool is_done(Request& request) = 0;
  // Withdraws a receive without waiting. A message that has begun to arrive may still be written to the memory.
  virtual void cancel(Request& request) noexcept = 0;
  // Keeps memory that messages in flight may still use, as long as the network exists.
  virtual void keep(std::shared_ptr<const void> memory) = 0;
};

}  // namespace runner::backends
