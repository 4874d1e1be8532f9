#include "backends/gpu/memory_trace.h"

#include <algorithm>

#include "backends/gpu/gpu_executable.h"
#include "backends/ir/batch_growth.h"
#include "backends/ir/views.h"
#include "backends/tensor/rounding.h"

namespace runner::backends::gpu {
namespace {

constexpr int32_t kNowhere = -1;  // in a state, in a batch, or empty

class Tracer {
 public:
  explicit Tracer(const Plan& plan)
      : plan_(plan),
        program_(plan.program),
        copies_(static_cast<int>(plan.steps.size())),
        grows_(grows_with_batch(program_)),
        part_of_(static_cast<size_t>(program_.size()), kNoValue),
        buffer_(static_cast<size_t>(program_.size()), kNowhere) {}

  MemoryTrace run() {
    find_parts();
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const PlanStep& step = plan_.steps[s];
      for (size_t i = 0; i < step.results.size(); ++i) make(step, i, static_cast<int>(s));
      for (const ValueId operand : step.operand_values) use(operand, static_cast<int>(s));
    }
    for (const Output& output : program_.outputs()) use(output.value, output.state < 0 ? copies_ + 1 : copies_);
    list_events();
    list_inputs();
    return std::move(trace_);
  }

 private:
  int32_t& buffer(ValueId id) { return buffer_[static_cast<size_t>(id)]; }
  ValueId& part_of(ValueId id) { return part_of_[static_cast<size_t>(id)]; }

  // A concat without a step of its own is written part by part.
  void find_parts() {
    std::vector<char> launched(part_of_.size(), 0);
    for (const PlanStep& step : plan_.steps) launched[static_cast<size_t>(step.node)] = 1;
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (program_.node(id).op != Op::kConcat || launched[static_cast<size_t>(id)]) continue;
      for (ValueId part : program_.operands(id)) {
        while (program_.node(part).op == Op::kReshape) part = program_.operands(part)[0];
        part_of(part) = id;
      }
    }
  }

  // The value that owns the memory of `id`.
  ValueId root_of(ValueId id) {
    while (true) {
      if (part_of(id) != kNoValue) {
        id = part_of(id);
      } else if (is_view(program_, id)) {
        id = program_.operands(id)[0];
      } else {
        return id;
      }
    }
  }

  void make(const PlanStep& step, size_t result, int number) {
    const SlotOffset& place = step.results[result];
    const ValueId root = root_of(step.result_values[result]);
    if (buffer(root) == kNowhere && place.slot == 0) buffer(root) = written_over(step, root, place);
    if (buffer(root) == kNowhere && place.slot == 0 && program_.type(root).bytes() > 0) {
      buffer(root) = static_cast<int32_t>(trace_.buffers.size());
      trace_.buffers.push_back(new_buffer(root, number));
    }
    use(root, number);
  }

  TraceBuffer new_buffer(ValueId root, int number) const {
    const Node& node = program_.node(root);
    return {.bytes = static_cast<int64_t>(node.type.bytes()),
            .name = std::string(name_of(node.op)),
            .origin = node.origin,
            .line = program_.mark_of(root),
            .first = number,
            .last = number,
            .grows = grows_[static_cast<size_t>(root)] != 0,
            .is_f32 = node.type.dtype == DType::kF32};
  }

  // Returns the buffer of an operand that dies here and whose place the Plan gives to the result, if a GPU would reuse
  // it too.
  int32_t written_over(const PlanStep& step, ValueId root, const SlotOffset& place) {
    if (!is_collective(program_.node(step.node).op) && !is_flat(root)) return kNowhere;
    for (size_t i = 0; i < step.operands.size(); ++i) {
      const ValueId operand = root_of(step.operand_values[i]);
      if (step.operands[i] == place && program_.type(operand).bytes() == program_.type(root).bytes())
        return buffer(operand);
    }
    return kNowhere;
  }

  // Whether the value is a vector with the shape of a state, that is, a whole flat buffer.
  bool is_flat(ValueId id) const {
    const Shape& shape = program_.type(id).shape;
    return std::ranges::any_of(program_.inputs(), [&](const Input& input) {
      return input.kind == InputKind::kState && shape.rank() == 1 && program_.type(input.value).shape == shape;
    });
  }

  void use(ValueId id, int step) {
    if (const int32_t in = buffer(root_of(id)); in != kNowhere) {
      int& last = trace_.buffers[static_cast<size_t>(in)].last;
      last = std::max(last, step);
    }
  }

  void list_events() {
    std::vector<std::vector<int32_t>> freed(plan_.steps.size() + 1);
    const auto count = static_cast<int32_t>(trace_.buffers.size());
    for (int32_t b = 0; b < count; ++b) {
      const int last = trace_.buffers[static_cast<size_t>(b)].last;
      if (last <= copies_) {
        freed[static_cast<size_t>(last)].push_back(b);
      } else {
        trace_.outputs.push_back(b);
      }
    }
    int32_t next = 0;
    for (int step = 0; step <= copies_; ++step) {
      for (; next < count && trace_.buffers[static_cast<size_t>(next)].first == step; ++next)
        trace_.events.push_back({next, true});
      for (const int32_t b : freed[static_cast<size_t>(step)]) trace_.events.push_back({b, false});
    }
  }

  void list_inputs() {
    size_t state = 0;
    for (const Input& input : program_.inputs())
      if (input.kind == InputKind::kState) add_input(trace_.states, input, state++);
    for (const BatchRead& read : batch_reads_of(program_))
      if (read.is_copied()) add_input(trace_.batch, program_.inputs()[read.declared], read.input);
    trace_.batch_size = batch_size_of(program_).value_or(0);
    trace_.writes_states =
        std::ranges::any_of(program_.outputs(), [](const Output& output) { return output.state >= 0; });
    for (ValueId id = 0; id < program_.size(); ++id)
      trace_.has_f32_products |=
          def_of(program_.node(id).op).matrix_operands > 0 && program_.type(id).dtype == DType::kF32;
  }

  void add_input(std::vector<TraceInput>& to, const Input& input, size_t number) const {
    const auto bytes = static_cast<int64_t>(program_.type(input.value).bytes());
    if (bytes > 0) to.push_back({input.name, bytes, grows_[static_cast<size_t>(input.value)] != 0, number});
  }

  const Plan& plan_;
  const Program& program_;
  const int copies_;  // pseudo-step of the state copies, after the last step
  const std::vector<char> grows_;
  std::vector<ValueId> part_of_;  // by value: the concat that it is written into
  std::vector<int32_t> buffer_;   // by root value
  MemoryTrace trace_;
};

int64_t scaled_bytes(const MemoryTrace& trace, int64_t bytes, int64_t samples) {
  const int64_t rest = ceil_div(bytes % trace.batch_size * samples, trace.batch_size);
  return bytes / trace.batch_size * samples + rest;
}

}  // namespace

MemoryTrace trace_memory(const Plan& plan) {
  return Tracer(plan).run();
}

std::vector<int64_t> batch_bytes(const MemoryTrace& trace) {
  std::vector<int64_t> bytes;
  for (const TraceInput& input : trace.batch) {
    bytes.resize(std::max(bytes.size(), input.input + 1));
    bytes[input.input] = input.bytes;
  }
  return bytes;
}

MemoryTrace scaled(const MemoryTrace& trace, const TraceScale& scale) {
  MemoryTrace result = trace;
  const auto scale_buffer = [&](auto& its) {
    if (its.grows && scale.samples > 0) its.bytes = scaled_bytes(trace, its.bytes, scale.samples);
  };
  for (TraceInput& input : result.batch) scale_buffer(input);
  for (TraceBuffer& buffer : result.buffers) {
    scale_buffer(buffer);
    if (buffer.grows && buffer.is_f32 && scale.narrow) buffer.bytes = ceil_div<int64_t>(buffer.bytes, 2);
  }
  return result;
}

int64_t peak_bytes(const MemoryTrace& trace) {
  int64_t now = 0;
  for (const TraceInput& input : trace.batch) now += block_bytes(input.bytes);
  int64_t fullest = now;
  for (const TraceEvent& event : trace.events) {
    const int64_t bytes = block_bytes(trace.buffers[static_cast<size_t>(event.buffer)].bytes);
    now += event.allocates ? bytes : -bytes;
    fullest = std::max(fullest, now);
  }
  return fullest;
}

}  // namespace runner::backends::gpu
