// What the launches of a Plan ask of an allocator: which results take memory, from when, and until when.
//
// Launched one by one, as PyTorch does it, a step has memory of its own for what it computes, from its launch until the
// launch that reads it last.  In memory that is there already are
// 1. views;
// 2. new values of states that the Plan computes in place, as optimizers do;
// 3. parts of a concat that are written where they will stand: the concat is there from its first part on;
// 4. what a collective, or a launch over a whole flat buffer (clipping, unscaling), writes over its operand.
// A state's new value that cannot be written in place is there until it has been copied, behind all launches; outputs
// that are returned stay.  Scratch memory of kernels is the cpu's affair.  A value: made once, read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/gpu/caching_allocator.h"
#include "backends/plan/plan.h"

namespace runner::backends::gpu {

struct TraceBuffer {
  int64_t bytes = 0;
  std::string name;  // of the op whose result has it first; of a concat in parts, the concat's
  Origin origin = kNoOrigin;
  SourceMark line;     // of the recording that the Plan was made of
  int first = 0;       // step that it is allocated for
  int last = 0;        // step behind which it is freed; the number of steps: behind the copies; one more: it stays
  bool grows = false;  // with the batch
  bool is_f32 = false;
};

// In the order of the launches.
struct TraceEvent {
  int32_t buffer;
  bool allocates;  // else it is freed
};

// A state of the Plan, or an input of its batch that has to be copied; both are there before its first launch.
struct TraceInput {
  std::string name;
  int64_t bytes = 0;
  bool grows = false;
  size_t input = 0;  // of its kind
};

struct MemoryTrace {
  std::vector<TraceBuffer> buffers;  // in the order in which they are allocated
  std::vector<TraceEvent> events;
  std::vector<int32_t> outputs;  // buffers that stay
  std::vector<TraceInput> states, batch;
  int64_t batch_size = 0;  // 0: there is no batch
  bool has_f32_products = false;
  bool writes_states = false;  // as a step of training does, and none of an evaluation
};

MemoryTrace trace_memory(const Plan& plan);

// What is copied of a batch, by input.
std::vector<int64_t> batch_bytes(const MemoryTrace& trace);

// Other conditions than those of the trace.
struct TraceScale {
  int64_t samples = 0;  // of a batch; 0: all of them
  bool narrow = false;  // f32 that grows with the batch takes half
};
MemoryTrace scaled(const MemoryTrace& trace, const TraceScale& scale);
// The most bytes, in blocks, that batch and results have at once.
int64_t fullest_bytes(const MemoryTrace& trace);

}  // namespace runner::backends::gpu
