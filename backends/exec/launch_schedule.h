// Finds after which launches of a Plan byte ranges of its states have their final contents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/exec/plan.h"

namespace runner::backends {

inline constexpr int32_t kBeforeAll = -1;  // in place of a launch

class LaunchSchedule {
 public:
  // Whether a range is complete after the last launch that writes it, or the last one that uses it.
  enum class Until { kWritten, kUnused };
  // `launches`: of an execution: the steps of the Plan, followed by its state copies. `plan` must outlive the object.
  LaunchSchedule(const Plan& plan, int32_t launches, Until until = Until::kWritten)
      : plan_(plan), launches_(launches), until_(until) {}

  // A bucket of ranges, complete after `launch`, or kBeforeAll if nothing writes it.
  struct Due {
    int32_t launch;
    int32_t bucket;
    int64_t bytes;
  };
  // Returns the buckets in launch order. A range without a state is complete after the last launch. Valid until the
  // next call.
  std::span<const Due> find(std::span<const ReducedBytes> ranges);
  // Like find(), with a bucket for each signal: its index.
  std::span<const Due> find(std::span<const Signal> signals);

 private:
  int32_t last_use(const StateBytes& bytes) const;

  const Plan& plan_;
  const int32_t launches_;
  const Until until_;
  std::vector<ReducedBytes> ranges_;     // argument that due_ was computed for
  std::vector<ReducedBytes> signalled_;  // of the newest signals
  std::vector<Due> due_;
};

}  // namespace runner::backends
