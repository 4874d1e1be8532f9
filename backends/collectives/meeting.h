// Where ranks meet, in memory that they share: nobody leaves before all have come.
//
// A rank that waits spins for up to 20 µs where each rank has a core of its own, then sleeps in the kernel until the
// last one comes or someone gives up.  Zeroed memory is a Meeting that nobody has come to.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "schema/source_mark.h"

namespace runner::backends {

class Meeting {
 public:
  enum class Outcome { kMet, kFailed, kTimeout };

  // This rank has come.  What any rank wrote before it came can be read by all who have met.
  Outcome meet(int size, bool spin, std::chrono::milliseconds timeout);

  // Nobody waits for anybody any more.  The first reason is kept.
  void fail(std::string_view reason, const SourceMark& where);
  bool failed() const { return state_.load(std::memory_order_acquire) == kFailed; }
  // Of who has failed; both may be cut.
  std::string reason() const { return reason_; }
  SourceMark where() const { return {file_, line_, 0}; }

 private:
  enum State : uint32_t { kGood, kFailing, kFailed };

  bool waits(uint32_t generation) const;
  void wake_all();

  alignas(64) std::atomic<uint32_t> generation_;  // how often all have met; what sleepers wait on
  std::atomic<uint32_t> sleepers_;
  std::atomic<uint32_t> state_;
  alignas(64) std::atomic<uint32_t> arrived_;
  alignas(64) int32_t line_;
  char file_[256];
  char reason_[2048];
};

}  // namespace runner::backends
