#include "backends/gpu/gpu_executable.h"

#include <fmt/format.h>

#include "backends/ir/needed.h"

namespace runner::backends::gpu {

GpuExecutable::GpuExecutable(const Program& program)
    : plan_(build_plan(program, kGpuLaunches)),
      batch_reads_(batch_reads_of(plan_.program)),
      slots_(plan_.program),
      schedule_(plan_, launches()) {}

void GpuExecutable::bind(std::byte* arena, const Submission& submission, WorkerPool& pool) {
  lines_ = submission.lines;
  name_ = submission.name;
  kind_ = submission.span;
  run_.emplace(plan_, slots_.bind(arena, submission), pool, lines_, submission.exchange);
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
  span_.reset();  // left open if an error ended the previous run
  if (!name_.empty()) span_.emplace(kind_, name_, SpanWork{.bytes = bytes(), .flops = flops()});
}

std::string GpuExecutable::describe(int32_t index) const {
  const auto number = static_cast<size_t>(index);
  if (number >= plan_.steps.size()) return "a copy of states";
  const PlanStep& step = plan_.steps[number];
  const SourceMark& mark = mark_of(plan_, step, lines_);
  return mark.known() ? fmt::format("{} of {}", step.kernel.name, mark.to_string()) : step.kernel.name;
}

std::vector<BatchRead> batch_reads_of(const Program& program) {
  const std::vector<char> needed = needed_by_outputs(program);
  std::vector<BatchRead> reads;
  size_t batch = 0;
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    const Input& input = program.inputs()[i];
    if (input.kind != InputKind::kBatch) continue;
    const auto bytes = static_cast<int64_t>(program.type(input.value).bytes());
    if (needed[static_cast<size_t>(input.value)] != 0 && bytes > 0) reads.push_back({batch, i, bytes});
    ++batch;
  }
  return reads;
}

}  // namespace runner::backends::gpu
