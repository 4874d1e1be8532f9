// Finds after which launches of a Plan byte ranges of its states have their final contents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/device_model/device_model.h"
#include "backends/exec/plan.h"

namespace runner::backends::gpu {

inline constexpr int32_t kBeforeAll = -1;

class LaunchSchedule {
 public:
  // `launches`: of an execution: the steps of the Plan, followed by its state copies. `plan` must outlive the object.
  LaunchSchedule(const Plan& plan, int32_t launches) : plan_(plan), launches_(launches) {}

  // A bucket of ranges, complete after `launch`, or kBeforeAll if nothing writes it.
  struct Due {
    int32_t launch;
    int32_t bucket;
    int64_t bytes;
  };
  // Returns the buckets in launch order. A range without a state is complete after the last launch. Valid until the
  // next call.
  std::span<const Due> find(std::span<const ReducedBytes> ranges);

 private:
  int32_t last_write(const StateBytes& bytes) const;

  const Plan& plan_;
  const int32_t launches_;
  std::vector<ReducedBytes> ranges_;  // argument that due_ was computed for
  std::vector<Due> due_;
};

}  // namespace runner::backends::gpu
