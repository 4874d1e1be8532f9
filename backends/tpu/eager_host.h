// A host that runs Programs op by op, as an eager TPU does: each operation is a Program of its own, which is compiled
// once and runs alone.
//
// Nothing is fused.  A result has memory of its own until the last operation that reads it has run; parts of arrays and
// broadcasts are read where they are.  What is computed is the same, bit for bit.  submit() works inside itself.
// Thread safety: one thread at a time calls a device.
#pragma once

#include <memory>
#include <span>

#include "backends/backend.h"
#include "backends/ir/program.h"

namespace runner::backends::tpu {

// An operation of an executable, in the order in which they run.
struct OpTimes {
  Op op;
  Origin origin;
  int64_t compile_ns = 0;  // that the first of its kind took
  // In the newest submission.
  int64_t run_ns = 0;
  bool has_run = false;
};

std::unique_ptr<Device> make_eager_host(std::unique_ptr<Device> host);

// Of an executable of such a device.
std::span<const OpTimes> op_times(const Executable& executable);

}  // namespace runner::backends::tpu
