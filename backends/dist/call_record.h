// A collective call as other ranks see it: what must match between ranks, and what messages show.
//
// Resides in shared memory, so it has no pointers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "backends/dist/process_group.h"

namespace runner::backends {

// Copies as much of the beginning of `text` as fits into a string of fixed capacity, zero-terminated.
template <size_t N>
void set_fixed_text(char (&target)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

// Copies as much of the end of `text` as fits, zero-terminated.
template <size_t N>
void set_end_of_text(char (&target)[N], std::string_view text) {
  set_fixed_text(target, text.substr(text.size() - std::min(text.size(), N - 1)));
}

enum class CallKind : uint8_t {
  kNone,  // no call yet
  kBarrier,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kGatherObjects,
  kSymmetricAlloc,
};

struct CallRecord {
  CallKind kind = CallKind::kNone;
  Reduction reduction = Reduction::kSum;
  int32_t root = 0;
  TensorType type;
  int64_t step = 0;
  char what[40] = {};  // Site::what, truncated
  char line[88] = {};  // "file:line", truncated at the beginning

  static CallRecord of(CallKind kind, const TensorType& type, const Site& site);
  // Whether the calls of two ranks match.
  bool matches(const CallRecord& other) const;
  // Hash of the fields that matches() compares. Equal in all processes of a program.
  uint64_t digest() const;
  // Example: "all_reduce of gradients, (784, 1024) f32, at step 3, h.lua:7".
  std::string to_string() const;
  // Predicate of a sentence about the rank: "last called barrier of start, at step 4", or that it has called none yet.
  std::string as_last_call() const;
};
static_assert(std::is_trivially_copyable_v<CallRecord>);

// Describes calls, one per rank from `first_rank` on, that do not match: "ranks called different collectives: ranks 0
// and 2 call …, rank 1 calls …".
std::string describe_disagreement(std::span<const CallRecord> calls, int first_rank = 0);

}  // namespace runner::backends
