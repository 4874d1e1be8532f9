#include "runner/train/engine/region_runner.h"

#include <array>
#include <span>

#include "backends/tensor/float16.h"
#include "runner/train/engine/step_specification.h"
#include "runner/train/engine/traced_region.h"

namespace runner::train {
namespace {

std::vector<backends::ValueId> roots_of(const backends::Program& program) {
  std::vector<backends::ValueId> roots;
  for (const backends::Output& output : program.outputs()) roots.push_back(output.value);
  return roots;
}

}  // namespace

SegmentRunner::SegmentRunner(const StepBuilder& builder, backends::ModelledDevice& device, Executor& executor,
                             StepArguments& arguments, UpdateClock* clock, TracedGraphs* traced)
    : parameters_(builder.model().parameters),
      device_(device),
      executor_(executor),
      arguments_(arguments),
      clock_(clock),
      traced_(traced) {}

StepSubmission SegmentRunner::arguments(const Segment& segment, const data::Batch* batch) {
  if (clock_ != nullptr) clock_->begin_segment(segment);
  return arguments_.of_segment(segment, batch);
}

void SegmentRunner::run(std::string_view name, const Segment& segment, const data::Batch* batch) {
  const backends::Program& program = segment.program();
  newest_ = executor_.cache().find_or_make(program, segment_specification(),
                                           [&] { return compiled_step(device_.compile(program)); });
  if (traced_ != nullptr && segment.meetings() > 0)
    traced_->add(batch != nullptr ? batch->size : 0, /*place=*/{}, executor_.cache().newest_recorded(),
                 roots_of(program), segment.host().traced, segment.of_rank_0());
  executor_.begin_exchange(/*again=*/false);
  executor_.execute(name, *newest_, arguments(segment, batch));
}

double SegmentRunner::read_output(const Segment& segment, int output) {
  const backends::Program& program = segment.program();
  const backends::DType dtype = program.type(program.outputs()[static_cast<size_t>(output)].value).dtype;
  std::array<std::byte, 8> value{};
  device_.read_output(*newest_->executable, output, std::span(value).first(backends::size_of(dtype)));
  return backends::load_element(dtype, value.data());
}

std::vector<double> SegmentRunner::read_value(const Segment& segment, backends::ValueId value,
                                              const data::Batch* batch) {
  return executor_.read_value(segment.program(), value, arguments(segment, batch));
}

std::vector<std::byte> SegmentRunner::read_bytes(const Segment& segment, backends::ValueId value,
                                                 const data::Batch* batch) {
  return executor_.read_bytes(segment.program(), value, arguments(segment, batch));
}

std::optional<NotFinite> SegmentRunner::explain_not_finite(const Segment& segment, const data::Batch* batch) {
  StepSubmission alone = arguments(segment, batch);
  alone.exchange = nullptr;
  return first_not_finite(device_, segment.forward_pass(), parameters_, alone, executor_.memory());
}

}  // namespace runner::train
