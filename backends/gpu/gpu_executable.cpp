#include "backends/gpu/gpu_executable.h"

#include <fmt/format.h>

namespace runner::backends::gpu {

GpuExecutable::GpuExecutable(const Program& program)
    : plan_(build_plan(program, {.fusion = Fusion::kFlat})), slots_(plan_.program) {}

void GpuExecutable::bind(std::byte* arena, const Arguments& arguments, WorkerPool& pool) {
  lines_ = arguments.lines;
  run_.emplace(plan_, slots_.bind(arena, arguments), pool, lines_, arguments.exchange);
}

void GpuExecutable::launch(int32_t index) {
  const auto step = static_cast<size_t>(index);
  if (step < plan_.steps.size()) {
    run_->run(plan_.steps[step]);
  } else {
    run_->update_states();
  }
}

std::string GpuExecutable::describe(int32_t index) const {
  const auto number = static_cast<size_t>(index);
  if (number >= plan_.steps.size()) return "a copy of states";
  const PlanStep& step = plan_.steps[number];
  const SourceMark& mark = mark_of(plan_, step, lines_);
  return mark.known() ? fmt::format("{} of {}", step.kernel.name, mark.to_string()) : step.kernel.name;
}

}  // namespace runner::backends::gpu
