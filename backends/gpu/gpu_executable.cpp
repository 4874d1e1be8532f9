#include "backends/gpu/gpu_executable.h"

#include <fmt/format.h>

namespace runner::backends::gpu {

GpuExecutable::GpuExecutable(const Program& program)
    : plan_(build_plan(program, {.fusion = Fusion::kFlat})), slots_(plan_.program) {}

void GpuExecutable::bind(std::byte* arena, const Arguments& arguments, WorkerPool& pool) {
  lines_ = arguments.lines;
  name_ = arguments.name;
  kind_ = arguments.span;
  run_.emplace(plan_, slots_.bind(arena, arguments), pool, lines_, arguments.exchange);
}

void GpuExecutable::launch(int32_t index) {
  if (index == 0) begin_span();
  const auto step = static_cast<size_t>(index);
  if (step < plan_.steps.size()) {
    run_->run(plan_.steps[step]);
  } else {
    run_->update_states();
  }
  if (index + 1 == launches()) span_.reset();
}

void GpuExecutable::begin_span() {
  span_.reset();  // where an error has ended the one before
  if (!name_.empty()) span_.emplace(kind_, name_, SpanWork{.bytes = bytes(), .flops = flops()});
}

std::span<const int32_t> GpuExecutable::last_writes(std::span<const Signal> signals) {
  last_writes_.clear();
  for (const Signal& signal : signals)
    last_writes_.push_back(signal.state < 0 ? launches() - 1 : last_write(signal.state, signal.begin, signal.end));
  return last_writes_;
}

int32_t GpuExecutable::last_write(int32_t state, size_t begin, size_t end) const {
  int32_t slot = 0;
  for (int32_t before = -1; before < state;)
    before += plan_.program.inputs()[static_cast<size_t>(slot++)].kind == InputKind::kState;
  const auto touches = [&](const Place& place, size_t bytes) {
    return place.slot == slot && place.offset < end && begin < place.offset + bytes;
  };
  for (const StateCopy& copy : plan_.copies)
    if (touches(copy.to, copy.bytes)) return launches() - 1;
  for (auto step = static_cast<int32_t>(plan_.steps.size()) - 1; step >= 0; --step) {
    const PlanStep& writer = plan_.steps[static_cast<size_t>(step)];
    for (size_t r = 0; r < writer.results.size(); ++r)
      if (touches(writer.results[r], plan_.program.type(writer.result_values[r]).bytes())) return step;
  }
  return kBeforeAll;
}

std::string GpuExecutable::describe(int32_t index) const {
  const auto number = static_cast<size_t>(index);
  if (number >= plan_.steps.size()) return "a copy of states";
  const PlanStep& step = plan_.steps[number];
  const SourceMark& mark = mark_of(plan_, step, lines_);
  return mark.known() ? fmt::format("{} of {}", step.kernel.name, mark.to_string()) : step.kernel.name;
}

}  // namespace runner::backends::gpu
