// Host device that runs Programs op by op, as an eager TPU does: each operation is a Program of its own that is
// compiled once and runs alone.
//
// Nothing is fused. A result keeps its own memory until its last reader has run; views and broadcasts are read in
// place. Results are bit-identical to those of the wrapped device. submit() is synchronous. Thread safety: one thread
// at a time calls a device.
#pragma once

#include <memory>
#include <span>

#include "backends/exec/backend.h"
#include "backends/ir/program.h"

namespace runner::backends::tpu {

// An operation of an executable, in execution order.
struct OpTimes {
  Op op;
  Origin origin;
  int64_t compile_ns = 0;  // compile time of the first of its kind
  // Of the newest submission.
  int64_t run_ns = 0;
  bool has_run = false;
};

std::unique_ptr<Device> make_eager_host(std::unique_ptr<Device> host);

// Operations of an executable that such a device compiled.
std::span<const OpTimes> op_times(const Executable& executable);

}  // namespace runner::backends::tpu
