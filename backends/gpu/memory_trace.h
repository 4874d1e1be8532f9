// Allocator requests of a Plan's launches: which results are allocated, from when, and until when.
//
// A step is launched op by op, as in PyTorch. Each result has its own memory from its launch until the last launch that
// reads it, except for results that reuse existing memory:
// 1. views;
// 2. new values of states that the Plan computes in place, as optimizers do;
// 3. parts of a concat, which are written to their final place: the concat is allocated with its first part;
// 4. results that a collective, or a launch over a whole flat buffer (clipping, unscaling), writes over its operand.
// A state's new value that cannot be computed in place is kept until it is copied, after all launches. Returned outputs
// stay. Scratch memory of kernels belongs to the CPU and is not counted. Immutable once made; any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/exec/plan.h"
#include "backends/gpu/caching_allocator.h"

namespace runner::backends::gpu {

struct TraceBuffer {
  int64_t bytes = 0;
  std::string name;  // of the op whose result uses it first; for a concat in parts, of the concat
  Origin origin = kNoOrigin;
  SourceMark line;     // of the recording that the Plan was compiled from
  int first = 0;       // step that allocates it
  int last = 0;        // step after which it is freed; number of steps: after the copies; one more: stays
  bool grows = false;  // with the batch
  bool is_f32 = false;
};

// In launch order.
struct TraceEvent {
  int32_t buffer;
  bool allocates;  // false: frees
};

// A state of the Plan, or a batch input that is copied. Both exist before the first launch.
struct TraceInput {
  std::string name;
  int64_t bytes = 0;
  bool grows = false;
  size_t input = 0;  // index within its kind
};

struct MemoryTrace {
  std::vector<TraceBuffer> buffers;  // in allocation order
  std::vector<TraceEvent> events;
  std::vector<int32_t> outputs;  // buffers that stay
  std::vector<TraceInput> states, batch;
  int64_t batch_size = 0;  // 0: there is no batch
  bool has_f32_products = false;
  bool writes_states = false;  // true for training steps, false for evaluation steps
};

MemoryTrace trace_memory(const Plan& plan);

// Bytes to copy for each batch input.
std::vector<int64_t> batch_bytes(const MemoryTrace& trace);

// Hypothetical conditions for scaled().
struct TraceScale {
  int64_t samples = 0;  // batch size; 0: unchanged
  bool narrow = false;  // f32 values that grow with the batch take half
};
MemoryTrace scaled(const MemoryTrace& trace, const TraceScale& scale);
// Peak bytes of the batch and all results, in allocator blocks.
int64_t peak_bytes(const MemoryTrace& trace);

}  // namespace runner::backends::gpu
