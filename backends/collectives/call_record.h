// A collective call as the other ranks see it: what must agree, and what messages say of it.
//
// Lies in shared memory: no pointers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "backends/collectives/collectives.h"

namespace runner::backends {

enum class CallKind : uint8_t {
  kNone,  // no call yet
  kBarrier,
  kAllReduce,
  kReduce,
  kAllGather,
  kBroadcast,
  kGatherObjects,
  kShare,
};

struct CallRecord {
  CallKind kind = CallKind::kNone;
  Reduction reduction = Reduction::kSum;
  int32_t root = 0;
  TensorType type;
  int64_t step = 0;
  char what[40] = {};  // as Site's, cut
  char line[88] = {};  // "file:line", cut at its beginning

  static CallRecord of(CallKind kind, const TensorType& type, const Site& site);
  // Whether two ranks' calls can meet.
  bool meets(const CallRecord& other) const;
  // "all_reduce of gradients, (784, 1024) f32, at step 3, h.lua:7".
  std::string to_string() const;
};
static_assert(std::is_trivially_copyable_v<CallRecord>);

// What is wrong with calls, one of each rank, that do not meet: "the replicas do not agree: ranks 0 and 2 call …, rank
// 1 calls …".
std::string describe_disagreement(std::span<const CallRecord> calls);

}  // namespace runner::backends
