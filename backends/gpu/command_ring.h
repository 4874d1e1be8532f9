// The commands of one stream, from the host that launches them to whoever does them.
//
// Thread safety: one thread pushes, one at a time pops; what the first has written before a push, the second sees.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/gpu/event.h"

namespace runner::backends::gpu {

class Launchable;

struct Command {
  enum class Kind : uint8_t { kLaunch, kRecord, kWait };
  Kind kind;
  int32_t index = 0, end = 0;  // of the launches: the next one, and the first that is none of them
  Launchable* launched = nullptr;
  std::shared_ptr<Event> event = {};  // that is recorded, or waited for
  uint64_t count = 0;                 // that it has reached then
};

class CommandRing {
 public:
  static constexpr size_t kCapacity = 4096;  // a power of two
  CommandRing() : commands_(kCapacity) {}

  bool is_full() const {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) == kCapacity;
  }
  // It must not be full.
  void push(Command command) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    commands_[tail % kCapacity] = std::move(command);
    tail_.store(tail + 1, std::memory_order_release);
  }

  // The command that is next, which whoever does a part of it writes down there; null: there is none.
  Command* front() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    return head == tail_.load(std::memory_order_acquire) ? nullptr : &commands_[head % kCapacity];
  }
  // True once for each half of the ring: there is room again for who has found it full, and for more than a command or
  // two.
  bool pop() {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    commands_[head % kCapacity].event.reset();
    head_.store(head + 1, std::memory_order_release);
    return (head + 1) % (kCapacity / 2) == 0;
  }

  bool is_empty() const { return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire); }

 private:
  std::vector<Command> commands_;
  alignas(64) std::atomic<uint64_t> head_{0};  // popped so far
  alignas(64) std::atomic<uint64_t> tail_{0};  // pushed so far
};

}  // namespace runner::backends::gpu
