// Command queue of one stream, from the host that launches to the thread that executes.
//
// Thread safety: one thread pushes, and one thread at a time pops. Writes before a push are visible to the popping
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/gpu/stream_event.h"

namespace runner::backends::gpu {

class Launchable;

struct StreamCommand {
  enum class Kind : uint8_t { kLaunch, kRecord, kWait };
  Kind kind;
  int32_t index = 0, end = 0;  // launch indices: next one, and end of the range
  Launchable* launched = nullptr;
  std::shared_ptr<StreamEvent> event = {};  // to record or to wait for
  uint64_t count = 0;                       // of the event, after recording or to wait for
};

class CommandRing {
 public:
  static constexpr size_t kCapacity = 4096;  // must be a power of two
  CommandRing() : commands_(kCapacity) {}

  bool is_full() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) == kCapacity;
  }
  // The ring must not be full.
  void push(StreamCommand command) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    commands_[tail % kCapacity] = std::move(command);
    tail_.store(tail + 1, std::memory_order_release);
  }

  // Returns the next command, or null if there is none. Executing a part of it updates it in place.
  StreamCommand* front() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    return head == tail_.load(std::memory_order_acquire) ? nullptr : &commands_[head % kCapacity];
  }
  // Returns true once per half of the ring: a host that found it full is then woken with room for many commands.
  bool pop() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    commands_[head % kCapacity].event.reset();
    head_.store(head + 1, std::memory_order_release);
    return (head + 1) % (kCapacity / 2) == 0;
  }

  bool is_empty() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }

 private:
  std::vector<StreamCommand> commands_;
  alignas(64) std::atomic<uint64_t> head_{0};  // number popped
  alignas(64) std::atomic<uint64_t> tail_{0};  // number pushed
};

}  // namespace runner::backends::gpu
